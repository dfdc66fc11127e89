package histories

import (
	"context"
	"fmt"
	"net/url"
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
	standby   *pgtest.Cluster   // of the one; nil: there is no failover
	instances []*instance
}

// instance is one of the apps.
type instance struct {
	*apptest.Instance
	seed  uint64
	twice *cutproxy.Proxy // before Front: what goes through it goes there twice
}

// Lease and deadline of the apps: short, so that much happens.
const (
	lease    = time.Second
	deadline = 2500 * time.Millisecond
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
		in := &instance{seed: seed + uint64(i)<<32}
		in.Instance = apptest.NewInstance(t, program, databases[i%len(databases)].URL(), "JWT_SECRET="+secret,
			"LEASE="+lease.String(), "DEADLINE="+deadline.String(), "STALL="+lease.String(), "ATTEMPTS=4",
			"UNSAFE_SIMULATOR=1")
		var err error
		in.twice, err = cutproxy.New(in.Front.Addr(), func(int) cutproxy.Fate { return cutproxy.Fate{Twice: true} })
		require.NoError(t, err)
		t.Cleanup(in.twice.Close)
		w.instances = append(w.instances, in)
	}
	return w
}

// failOver ends the database at once, and goes on with its standby, which gets a standby of its own. The apps are not
// told: where they connect to, another server answers. The standby may be one that has not caught up since the primary
// was started again: then nobody has been answered from what it lacks.
func (w *world) failOver(t *testing.T) {
	t.Helper()
	w.databases[0].Stop(pgtest.Immediate)
	w.standby.Promote()
	w.databases[0] = w.standby
	target, err := url.Parse(w.standby.URL())
	require.NoError(t, err)
	for _, in := range w.instances {
		in.Back.SetTarget(target.Host)
	}
	w.standby = w.databases[0].Standby()
}

// address is where clients send a request to, once or twice.
func (in *instance) address(twice bool) string {
	if twice {
		return in.twice.Addr()
	}
	return in.Front.Addr()
}

// breakUp lets connections be cut from now on, and those that there are to the database at once.
func (in *instance) breakUp() {
	seed := in.seed + in.Lives()<<16
	in.Front.SetPlan(cutproxy.Random(seed, frontMean))
	in.Back.SetPlan(cutproxy.Random(seed+1, backMean))
	in.Back.CutAll()
}

// calm starts the apps again, and cuts no connection any more.
func (w *world) calm(t *testing.T) {
	t.Helper()
	for _, in := range w.instances {
		in.Kill(t)
		in.Front.SetPlan(cutproxy.Pass)
		in.Start()
	}
}

// The callers. Each has the roles for all that is sent.
const (
	issuer     = "https://issuer.example"
	secret     = "a secret that only the histories know"
	principals = 3 // customers
	operators  = 2
)

func principal(n int) core.Principal {
	return core.Principal{Issuer: issuer, Subject: fmt.Sprint("customer-", n)}
}

func token(t *testing.T, subject string, roles ...string) string {
	t.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": issuer, "aud": "payments", "sub": subject, "exp": time.Now().Add(24 * time.Hour).Unix(), "roles": roles,
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
