package histories

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/cutproxy"
	"github.com/auth19/idem/internal/pgtest"
)

// world is what a history happens in: instances of the apps on one database server, each behind two proxies.
type world struct {
	databases []*pgtest.Cluster // one; two are a fault that must be found
	instances []*instance
}

// instance is one of the apps, which lives more than once.
type instance struct {
	t       testing.TB
	program string
	seed    uint64
	lives   uint64
	process *apptest.Process

	front *cutproxy.Proxy // between the clients and the app
	back  *cutproxy.Proxy // between the app and its database
	url   string          // of the database, by way of back
}

// Lease and deadline of the apps: short, so that much happens.
const (
	lease    = time.Second
	deadline = 4 * time.Second
)

// How many bytes go through a connection on average before it is cut: a few requests, a few attempts.
const (
	frontMean = 10_000
	backMean  = 60_000
)

// newWorld starts instances of the programs, by turns on the databases.
func newWorld(t *testing.T, seed uint64, databases []*pgtest.Cluster, programs ...string) *world {
	t.Helper()
	w := &world{databases: databases}
	for i, program := range programs {
		target, err := url.Parse(databases[i%len(databases)].URL())
		require.NoError(t, err)
		in := &instance{t: t, program: program, seed: seed + uint64(i)<<32}
		in.back, err = cutproxy.New(target.Host, nil)
		require.NoError(t, err)
		t.Cleanup(in.back.Close)
		in.front, err = cutproxy.New("127.0.0.1:1", nil) // of nobody, before the first start
		require.NoError(t, err)
		t.Cleanup(in.front.Close)
		query := target.Query()
		query.Set("sslmode", "disable")
		target.Host, target.RawQuery = in.back.Addr(), query.Encode()
		in.url = target.String()
		w.instances = append(w.instances, in)
	}
	for _, in := range w.instances {
		in.start()
	}
	return w
}

// start starts the app, over connections that are whole.
func (in *instance) start() {
	in.t.Helper()
	in.lives++
	in.back.SetPlan(cutproxy.Pass)
	in.process = apptest.Start(in.t, in.program, in.t.TempDir(), "DATABASE_URL="+in.url, "JWT_SECRET="+secret,
		"LEASE="+lease.String(), "DEADLINE="+deadline.String(), "UNSAFE_SIMULATOR=1")
	in.front.SetTarget(strings.TrimPrefix(in.process.URL, "http://"))
}

// breakUp lets connections be cut from now on, and those that there are at once.
func (in *instance) breakUp() {
	in.front.SetPlan(cutproxy.Random(in.seed+in.lives<<16, frontMean))
	in.back.SetPlan(cutproxy.Random(in.seed+in.lives<<16+1, backMean))
	in.back.CutAll()
}

// calm starts the apps again, and cuts no connection any more.
func (w *world) calm() {
	for _, in := range w.instances {
		in.process.Kill(in.t)
		in.front.SetPlan(cutproxy.Pass)
		in.start()
	}
}

// The callers. Each has the roles for all that is sent.
const (
	issuer     = "https://issuer.example"
	secret     = "a secret that only the histories know"
	principals = 3
)

func principal(n int) core.Principal {
	return core.Principal{Issuer: issuer, Subject: fmt.Sprint("customer-", n)}
}

func token(t *testing.T, n int) string {
	t.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": issuer, "aud": "payments", "sub": principal(n).Subject, "exp": time.Now().Add(24 * time.Hour).Unix(),
		"roles": []string{"customer", "seller"},
	}).SignedString([]byte(secret))
	require.NoError(t, err)
	return signed
}

// ask runs a query on each database, past the proxies.
func (w *world) ask(ctx context.Context, query func(conn *pgx.Conn) error) error {
	for _, database := range w.databases {
		conn, err := pgx.Connect(ctx, database.URL())
		if err != nil {
			return err
		}
		err = query(conn)
		_ = conn.Close(ctx)
		if err != nil {
			return err
		}
	}
	return nil
}

// effects counts the entries of a ledger by operation.
func (w *world) effects(ctx context.Context, table, column string) (map[string]int, error) {
	counts := make(map[string]int)
	err := w.ask(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, fmt.Sprintf("SELECT %s, count(*) FROM %s GROUP BY 1", column, table))
		if err != nil {
			return err
		}
		var operation string
		var count int
		_, err = pgx.ForEachRow(rows, []any{&operation, &count}, func() error {
			counts[operation] += count
			return nil
		})
		return err
	})
	return counts, err
}

// expire ends the retention of a key, if there is an answer.
func (w *world) expire(ctx context.Context, id core.ID) (expired bool, err error) {
	err = w.ask(ctx, func(conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, `UPDATE idempotency_record SET expires_at = clock_timestamp()
WHERE id = $1 AND state = 2 AND expires_at > clock_timestamp()`, id[:])
		expired = expired || tag.RowsAffected() == 1
		return err
	})
	return expired, err
}

// recorder takes a history down.
type recorder struct {
	began time.Time
	mu    sync.Mutex
	ops   []Op
}

func (r *recorder) now() int64 { return int64(time.Since(r.began)) }

// record notes what do says of an operation, and when it began and ended.
func (r *recorder) record(o Op, do func(o *Op)) Op {
	o.Call = r.now()
	do(&o)
	o.Return = r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
	return o
}
