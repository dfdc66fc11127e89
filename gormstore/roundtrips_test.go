package gormstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// roundTrips counts them: the server ends each of its answers with the message ReadyForQuery.
type roundTrips struct {
	*proxy
	db    *gorm.DB
	store *gormstore.Store
	other *gormstore.Store // that of another instance, which has not seen the keys

	n    atomic.Int32
	held atomic.Pointer[chan struct{}] // what begins with ROLLBACK waits for it
}

// of are the round trips of fn.
func (r *roundTrips) of(t *testing.T, fn func()) int {
	t.Helper()
	before := r.n.Load()
	fn()
	return int(r.n.Load() - before)
}

func newRoundTrips(t *testing.T, url string, open func(url string) *gorm.DB) *roundTrips {
	t.Helper()
	migrate(t, openPostgres(t, url, 2))
	r := &roundTrips{proxy: newProxy(t, url)}
	r.set(func(toServer bool, chunk []byte) (int, bool) {
		if held := r.held.Load(); toServer && held != nil && bytes.Contains(chunk, []byte("ROLLBACK\x00")) {
			<-*held
		}
		if !toServer {
			r.n.Add(int32(bytes.Count(chunk, []byte("Z\x00\x00\x00\x05"))))
		}
		return len(chunk), false
	})
	r.db = open(r.url)
	r.store, r.other = newStore(t, r.db), newStore(t, r.db)
	for range 2 { // what is asked once, and what each connection prepares once
		r.commit(t, paid(), false)
		r.commit(t, refused(), true)
		r.alone(t)
		done := r.commit(t, paid(), false)
		r.replay(t, r.store, done)
		r.replay(t, r.other, done)
		r.atRest(t)
	}
	return r
}

// commit is an attempt that writes one row and records an answer.
func (r *roundTrips) commit(t *testing.T, answer store.Completion, undoRows bool) store.Claim {
	t.Helper()
	c := command(store.Rollback)
	tx, _ := beginRow(t, r.store, c)
	require.NoError(t, seal(t.Context(), tx, answer, undoRows))
	return c
}

// alone is the app's transaction without a key.
func (r *roundTrips) alone(t *testing.T) {
	t.Helper()
	require.NoError(t, r.db.Transaction(func(tx *gorm.DB) error { return tx.Create(&effect{Name: "row"}).Error }))
}

// modes are how pgx may send a statement. What pgx describes before each statement takes a round trip more, in the app's
// own transaction as well.
var modes = []string{"cache_statement", "cache_describe", "exec", "simple_protocol"}

// A Rollback attempt adds no round trip to the transaction of its handler, whatever the handler answers, and a replay is one
// before the answer leaves.
//
// CONTRACT X-0
func TestRoundTrips(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			url := pgtest.URL(t) + "&default_query_exec_mode=" + mode
			r := newRoundTrips(t, url, func(url string) *gorm.DB { return openPostgres(t, url, 2) })
			r.requireEndings(t, 3, 3)
			alone := r.of(t, func() { r.alone(t) })
			require.Equal(t, 3, alone, "BEGIN, INSERT, COMMIT")
			r.requireReplay(t, 1)
		})
	}
}

// requireEndings checks how many round trips an attempt with one row is.
func (r *roundTrips) requireEndings(t *testing.T, recorded, refusedToo int) {
	t.Helper()
	require.Equal(t, recorded, r.of(t, func() { r.commit(t, paid(), false) }), "2xx")
	require.Equal(t, refusedToo, r.of(t, func() { r.commit(t, refused(), true) }), "4xx, without the row")
	c := command(store.Rollback)
	require.Equal(t, recorded, r.of(t, func() {
		tx, _ := beginRow(t, r.store, c)
		require.NoError(t, tx.Rollback())
	}), "5xx")
	requireNothing(t, r.store, c)
}

// replay is a repeat of a command whose answer is recorded.
func (r *roundTrips) replay(t *testing.T, st *gormstore.Store, c store.Claim) {
	t.Helper()
	require.Equal(t, http.StatusCreated, repeated(t, st, c).Record.Answer.Status)
}

// requireReplay checks how many round trips a replay is before its answer leaves, in an instance that has not seen the key,
// and that its transaction ends behind it. In one that has seen the key it is one.
func (r *roundTrips) requireReplay(t *testing.T, want int) {
	t.Helper()
	c := r.commit(t, paid(), false)
	require.Equal(t, 1, r.of(t, func() { r.replay(t, r.store, c) }))
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release) // a proxy that waits would keep a failed test from its end
	r.held.Store(&held)
	require.Equal(t, want, r.of(t, func() { r.replay(t, r.other, c) }))
	pool := try(r.db.DB()).ok(t)
	require.Equal(t, 1, pool.Stats().InUse, "its connection keeps its place in the pool until it is through")
	release()
	r.held.Store(nil)
	r.atRest(t)
}

// atRest waits for what ends behind an answer.
func (r *roundTrips) atRest(t *testing.T) {
	t.Helper()
	pool := try(r.db.DB()).ok(t)
	eventually(t, "the transaction has ended", func() bool { return pool.Stats().InUse == 0 })
}

// Over a driver that is not known it is one round trip for each statement.
func TestRoundTripsOneByOne(t *testing.T) {
	r := newRoundTrips(t, pgtest.URL(t), func(url string) *gorm.DB { return wrapped.of(t, openPostgres(t, url, 2)) })
	requireWholeLife(t, r.store, r.db)
	require.Equal(t, 7, r.of(t, func() { r.commit(t, paid(), false) }), "2xx")
	require.Equal(t, 8, r.of(t, func() { r.commit(t, refused(), true) }), "4xx")
	r.requireReplay(t, 3)
}

// wrapper is a driver around pgx, as packages for tracing have one.
type wrapper struct{ driver.Connector }

// wrappedConn has the methods of pgx's connections, and is none.
type wrappedConn struct{ *stdlib.Conn }

// Connect implements [driver.Connector].
func (w wrapper) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return wrappedConn{c.(*stdlib.Conn)}, nil
}

func wrap(t *testing.T, url string) *sql.DB {
	t.Helper()
	config := try(pgx.ParseConfig(url)).ok(t)
	return sql.OpenDB(wrapper{stdlib.GetConnector(*config)})
}
