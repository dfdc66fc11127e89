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
)

// world is a database with two instances of an app, which serve one run after the other.
type world struct {
	t *testing.T
	Options
	url       string
	direct    *gorm.DB // past the proxies
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
	w := &world{t: t, Options: o, url: o.URL(t)}
	w.direct = w.connect(w.url, 4)
	require.NoError(t, gormstore.Migrate(t.Context(), w.direct))
	require.NoError(t, w.direct.Exec("CREATE TABLE effects (run varchar(64) NOT NULL, step varchar(64) NOT NULL, "+
		"attempt bigint NOT NULL)").Error)
	w.past = w.pastStatements()
	for i := range w.instances {
		w.instances[i] = w.newInstance()
	}
	t.Cleanup(func() {
		for _, in := range w.instances {
			in.die()
		}
		w.dead.Wait()
		pool, err := w.direct.DB()
		require.NoError(t, err)
		require.NoError(t, pool.Close())
	})
	return w
}

func (w *world) connect(url string, connections int) *gorm.DB {
	t := w.t
	t.Helper()
	db, err := gorm.Open(w.Database(url), &gorm.Config{Logger: logger.Discard})
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
	in.proxy, err = w.Proxy(w.url)
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

// pastStatements are those by which time passes: all times of a record move so many microseconds into the past.
func (w *world) pastStatements() (statements []string) {
	for table, id := range map[string]string{"idempotency_record": "id", "idempotency_step": "record_id"} {
		var columns, sets []string
		require.NoError(w.t, w.direct.Raw(`SELECT DISTINCT column_name FROM information_schema.columns
			WHERE table_name = ? AND (column_name LIKE '%\_at' OR column_name LIKE '%\_until')`, table).Scan(&columns).Error)
		require.NotEmpty(w.t, columns)
		for _, column := range columns {
			sets = append(sets, fmt.Sprintf("%[1]s = %[1]s - @micros", column))
		}
		statements = append(statements, fmt.Sprintf("%sUPDATE %s SET %s WHERE %s = @id", w.Brief, table,
			strings.Join(sets, ", "), id))
	}
	return statements
}

// pass lets time pass for a key. An instance whose handler runs has been asleep meanwhile.
func (w *world) pass(k *run, d time.Duration) {
	k.note("%v pass", d)
	id := core.Scoping{}.RecordID(customer, k.key)
	for _, statement := range w.past {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), time.Second)
		// It fails where somebody holds the row.
		w.direct.WithContext(ctx).Exec(statement, map[string]any{"id": id[:], "micros": d.Microseconds()})
		cancel()
	}
}

// hasRecord reports whether a key has a record.
func (w *world) hasRecord(k *run) (is bool) {
	id := core.Scoping{}.RecordID(customer, k.key)
	err := w.direct.WithContext(w.t.Context()).Raw("SELECT EXISTS (SELECT 1 FROM idempotency_record WHERE id = ?)", id[:]).
		Scan(&is).Error
	return is && err == nil
}

// rows are those of a key: attempts by step.
func (w *world) rows(k *run) map[string][]int {
	var rows []struct {
		Step    string
		Attempt int
	}
	all := w.direct.WithContext(w.t.Context()).Raw("SELECT step, attempt FROM effects WHERE run = ?", k.key)
	require.NoError(w.t, all.Scan(&rows).Error)
	found := map[string][]int{}
	for _, row := range rows {
		found[row.Step] = append(found[row.Step], row.Attempt)
	}
	return found
}
