package generator

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/internal/pgproxy"
	"github.com/auth19/idem/internal/pgtest"
)

// world is a database with two instances of an app, which serve one run after the other.
type world struct {
	t         *testing.T
	open      func(url string) gorm.Dialector
	url       string
	direct    *sql.DB // past the proxies
	past      []string
	run       atomic.Pointer[run]
	instances [2]*instance
	dead      sync.WaitGroup // what is left of instances that died
}

// instance is a process of the app, as far as others see it.
type instance struct {
	world  *world
	proxy  *pgproxy.Proxy
	pool   *sql.DB
	store  *gormstore.Store
	box    *inbox.Inbox
	module *core.Module
	routes http.Handler
	dead   atomic.Bool
	stop   context.CancelFunc
	serves sync.WaitGroup // requests, and Run
}

// The limits of all routes: as short as the library allows.
const (
	lease    = time.Second
	deadline = 2 * time.Second
	tick     = 300 * time.Millisecond // of Run
)

var customer = core.Principal{Issuer: "https://issuer.example", Subject: "customer-1"}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	w := &world{t: t, open: o.Database, url: pgtest.URL(t)}
	db := w.connect(w.url, 4)
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.Exec("CREATE TABLE effects (key text NOT NULL, step text NOT NULL, attempt bigint NOT NULL)").Error)
	var err error
	w.direct, err = db.DB()
	require.NoError(t, err)
	w.past = w.pastStatements()
	for i := range w.instances {
		w.instances[i] = w.newInstance()
	}
	t.Cleanup(func() {
		for _, in := range w.instances {
			in.die()
		}
		w.dead.Wait()
		require.NoError(t, w.direct.Close())
	})
	return w
}

func (w *world) connect(url string, connections int) *gorm.DB {
	t := w.t
	t.Helper()
	db, err := gorm.Open(w.open(url), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return db
}

func (w *world) newInstance() *instance {
	t := w.t
	in := &instance{world: w}
	var err error
	in.proxy, err = pgproxy.New(w.url)
	require.NoError(t, err)
	db := w.connect(in.proxy.URL, 5)
	in.pool, err = db.DB()
	require.NoError(t, err)
	in.store, err = gormstore.New(db, gormstore.StallAfter(300*time.Millisecond))
	require.NoError(t, err)
	in.box, err = inbox.New(db, inbox.Config{Group: "generator", BrokerRetention: time.Hour})
	require.NoError(t, err)
	table := core.Routes{}
	for _, r := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
		table["POST /"+r.String()] = core.Policy{Recovery: r}
		table["POST /"+r.String()+"/timed"] = core.Policy{Recovery: r, KeyFormat: core.TimedKey}
	}
	in.module, err = core.New(core.Config{Store: in.store, Routes: table, SweepEvery: tick,
		ClaimTimeout: 500 * time.Millisecond, Policy: core.Policy{Lease: lease, Deadline: deadline}})
	require.NoError(t, err)
	router := httpidem.NewRouter()
	group := router.Group("", httpidem.Bridge(func(*http.Request) (authctx.Principal, error) { return customer, nil }),
		httpidem.Idempotent(in.module))
	for route := range table {
		group.Handle(route, in)
	}
	in.routes = router
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	in.stop = stop
	in.serves.Go(func() { _ = in.module.Run(ctx) })
	return in
}

// die ends an instance as SIGKILL does: its connections break, nobody hears from it any more, and its handlers do nothing.
func (in *instance) die() {
	in.dead.Store(true)
	in.stop()
	in.world.dead.Go(func() {
		in.proxy.Close()
		in.serves.Wait()
		_ = in.store.Close()
		_ = in.pool.Close()
	})
}

// pastStatements are those by which time passes for a record ($1): all its times move $2 microseconds into the past.
func (w *world) pastStatements() (statements []string) {
	for table, id := range map[string]string{"idempotency_record": "id", "idempotency_step": "record_id"} {
		rows, err := w.direct.QueryContext(w.t.Context(), `SELECT column_name FROM information_schema.columns
			WHERE table_name = $1 AND column_name ~ '_(at|until)$'`, table)
		require.NoError(w.t, err)
		defer func() { require.NoError(w.t, rows.Close()) }()
		var sets []string
		for rows.Next() {
			var column string
			require.NoError(w.t, rows.Scan(&column))
			sets = append(sets, fmt.Sprintf("%[1]s = %[1]s - $2", column))
		}
		require.NoError(w.t, rows.Err())
		require.NotEmpty(w.t, sets)
		statements = append(statements, fmt.Sprintf("UPDATE %s SET %s WHERE %s = $1", table, strings.Join(sets, ", "), id))
	}
	return statements
}

// pass lets time pass for a key. An instance whose handler runs has been asleep meanwhile.
func (w *world) pass(k *run, d time.Duration) {
	k.note("%v pass", d)
	id := core.Scoping{}.RecordID(customer, k.key)
	for _, statement := range w.past {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), time.Second)
		_, _ = w.direct.ExecContext(ctx, statement, id[:], d.Microseconds()) // somebody may hold the row
		cancel()
	}
}

// hasRecord reports whether a key has a record.
func (w *world) hasRecord(k *run) (is bool) {
	id := core.Scoping{}.RecordID(customer, k.key)
	err := w.direct.QueryRowContext(w.t.Context(), "SELECT EXISTS (SELECT 1 FROM idempotency_record WHERE id = $1)",
		id[:]).Scan(&is)
	return is && err == nil
}

// rows are those of a key: attempts by step.
func (w *world) rows(k *run) map[string][]int {
	found := map[string][]int{}
	rows, err := w.direct.QueryContext(w.t.Context(), "SELECT step, attempt FROM effects WHERE key = $1", k.key)
	require.NoError(w.t, err)
	defer func() { require.NoError(w.t, rows.Close()) }()
	for rows.Next() {
		var step string
		var attempt int
		require.NoError(w.t, rows.Scan(&step, &attempt))
		found[step] = append(found[step], attempt)
	}
	require.NoError(w.t, rows.Err())
	return found
}
