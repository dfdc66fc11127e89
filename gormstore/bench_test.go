package gormstore

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/pgtest"
)

// benchClients is how many clients send at once.
const benchClients = 8

// benchSlice is how many commands of one kind are sent before those of the other have their turn.
const benchSlice = 50 * benchClients

// BenchmarkPostgres compares commands through the library, from http.Request to recorded answer, with a floor: the same
// statements in a bare loop, over the same pool, in the same process, bounded by a deadline as those of any app should
// be. The two take turns, so that both see the same machine: of-floor, the ratio of their throughputs, is what counts.
func BenchmarkPostgres(b *testing.B) {
	db, err := gorm.Open(pgdriver.Open(pgtest.URL(b)), &gorm.Config{Logger: logger.Discard})
	require.NoError(b, err)
	pool, err := db.DB()
	require.NoError(b, err)
	b.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(32)
	pool.SetMaxIdleConns(32)
	require.NoError(b, Migrate(b.Context(), db))
	store, err := New(db)
	require.NoError(b, err)

	var keys atomic.Int64
	newKey := func() string { return "key-" + strconv.FormatInt(keys.Add(1), 10) }
	all := make([]*benchClient, benchClients)
	for i := range all {
		all[i] = newBenchClient()
	}
	slice := func(b *testing.B, n int, work func(c *benchClient, key string) error) time.Duration {
		b.Helper()
		begun := time.Now()
		var clients sync.WaitGroup
		for i, c := range all {
			clients.Go(func() {
				for range (n + i) / benchClients {
					if err := work(c, newKey()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		clients.Wait()
		return time.Since(begun)
	}
	compare := func(b *testing.B, floor func(key string) error, idem func(c *benchClient, key string) error) {
		b.Helper()
		var floors, idems time.Duration
		for done := 0; done < b.N && !b.Failed(); done += benchSlice {
			n := min(benchSlice, b.N-done)
			floors += slice(b, n, func(_ *benchClient, key string) error { return floor(key) })
			idems += slice(b, n, idem)
		}
		b.ReportMetric(0, "ns/op") // of both together: says nothing
		b.ReportMetric(float64(floors.Nanoseconds())/float64(b.N), "floor-ns/op")
		b.ReportMetric(float64(idems.Nanoseconds())/float64(b.N), "idem-ns/op")
		b.ReportMetric(float64(floors)/float64(idems), "of-floor")
	}
	for _, recovery := range []core.Recovery{core.Park, core.Rollback} {
		m, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: recovery}})
		require.NoError(b, err)
		floor := benchFloor{store: store, recovery: recovery}
		name := recovery.String()
		b.Run(name+"/first", func(b *testing.B) {
			compare(b, floor.first, func(c *benchClient, key string) error { return c.send(m, key, core.ResultCreated) })
		})
		replayed := newKey()
		require.NoError(b, all[0].send(m, replayed, core.ResultCreated))
		b.Run(name+"/replay", func(b *testing.B) {
			compare(b, func(string) error { return floor.replay(replayed) },
				func(c *benchClient, _ string) error { return c.send(m, replayed, core.ResultReused) })
		})
	}
}

var benchPrincipal = core.Principal{Issuer: "https://issuer.example", Subject: "alice"}

const benchBody = `{"order_id":"ord_0123456789","amount":"12.34","currency":"EUR","method":"pm_ok"}`

var benchAnswer = []byte(`{"id":"pay_1","status":"captured","amount":"12.34","currency":"EUR"}`)

type benchWriter struct{ header http.Header }

func (w *benchWriter) Header() http.Header         { return w.header }
func (w *benchWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *benchWriter) WriteHeader(int)             {}

// benchClient sends commands through the library as an adapter does. Its request and its writer are made once: a server
// makes them with us and without us.
type benchClient struct {
	request *http.Request
	body    *strings.Reader
	writer  benchWriter
}

func newBenchClient() *benchClient {
	body := strings.NewReader(benchBody)
	r := httptest.NewRequest(http.MethodPost, "/v1/payments", body)
	r.Header.Set("Content-Type", "application/json")
	return &benchClient{request: r, body: body, writer: benchWriter{header: make(http.Header, 4)}}
}

func (c *benchClient) send(m *core.Module, key, want string) error {
	c.body.Reset(benchBody)
	c.request.Header.Set("Idempotency-Key", key)
	w := &c.writer
	clear(w.header)
	r, reply := m.Admit(c.request, "/v1/payments", benchPrincipal)
	if reply == nil {
		var attempt *core.Attempt
		if attempt, reply = m.Begin(r, "/v1/payments", benchPrincipal); attempt != nil {
			c := attempt.Capture(w)
			c.Header().Set("Content-Type", "application/json")
			c.WriteHeader(http.StatusCreated)
			_, _ = c.Write(benchAnswer)
			reply = attempt.Finish()
		}
	}
	if err := reply.WriteTo(w); err != nil {
		return err
	}
	if got := w.header.Get(core.HeaderResult); got != want {
		return &unexpected{got: got, want: want}
	}
	return nil
}

type unexpected struct{ got, want string }

func (e *unexpected) Error() string { return "result " + e.got + ", want " + e.want }

// benchFloor runs the statements alone.
type benchFloor struct {
	store    *Store
	recovery core.Recovery
}

func (f benchFloor) claim(key string) core.Claim {
	return core.Claim{ID: core.Scoping{}.RecordID(benchPrincipal, key), Owner: core.Owner{1}, Method: "POST", Route: "/v1/payments",
		Recovery: f.recovery, Hash: core.CommandHash{Version: 1}, Lease: 30 * time.Second, Deadline: time.Minute}
}

// claimKey claims inside of a transaction, as Rollback does.
func (f benchFloor) claimKey(ctx context.Context, q querier, key string) error {
	args := f.store.claimKeyArgs(f.claim(key), &backend{idle: guardOf(time.Minute)})
	var row claimRow
	return f.store.queryRow(ctx, q, claimKey, args...).Scan(row.targets()...)
}

func (f benchFloor) completeArgs(key string) []any {
	id := core.Scoping{}.RecordID(benchPrincipal, key)
	owner := core.Owner{1}
	return []any{id[:], owner[:], int64(1), int64(201), false, []byte(`{"Content-Type":["application/json"]}`), benchAnswer,
		int64(1e12), int64(2e12)}
}

func (f benchFloor) first(key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), core.DefaultClaimTimeout)
	defer cancel()
	if f.recovery == core.Park {
		c := f.claim(key)
		var now instant
		args := append(claimArgs(c), lockKey(c.ID), c.Traceparent)
		if err := f.store.queryRow(ctx, f.store.pool, insertRecord, args...).Scan(&now); err != nil {
			return err
		}
		_, err := f.store.exec(ctx, f.store.pool, complete, f.completeArgs(key)...)
		return err
	}
	conn, err := f.store.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for _, step := range []func() error{
		func() error { _, err := conn.ExecContext(ctx, "BEGIN"); return err },
		func() error { return f.claimKey(ctx, conn, key) },
		func() error { _, err := conn.ExecContext(ctx, "SAVEPOINT idem_handler"); return err },
		func() error {
			_, err := f.store.exec(ctx, conn, complete, f.completeArgs(key)...)
			return err
		},
		func() error { _, err := conn.ExecContext(ctx, "COMMIT"); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (f benchFloor) replay(key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), core.DefaultClaimTimeout)
	defer cancel()
	if f.recovery == core.Park {
		id := f.claim(key).ID
		var now instant
		var scan recordScan
		return f.store.queryRow(ctx, f.store.pool, lookFirst, id[:]).Scan(scan.targets(&now)...)
	}
	conn, err := f.store.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := f.claimKey(ctx, conn, key); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "ROLLBACK")
	return err
}
