package gormstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
)

// A repeat is soon told that the attempt is running, even if no slot is free: else it would wait for the very attempt that
// it repeats. On PostgreSQL the attempt is another process's: this one has to look.
//
// CONTRACT M-2, M-6
func TestRepeatDoesNotWaitInACrowd(t *testing.T) {
	t.Parallel()
	for _, d := range everyWay {
		t.Run(d.name, func(t *testing.T) {
			open := d.fresh(t)
			db := open(t)
			try(db.DB()).ok(t).SetMaxOpenConns(3) // two slots on PostgreSQL; SQLite has one writer anyway
			st := newStore(t, db)
			elsewhere := st
			var running []store.Attempt
			if d.shared {
				elsewhere = newStore(t, open(t))
				for range 2 {
					tx, _ := begin(t, st, command(core.Rollback))
					running = append(running, tx)
				}
			}
			first, other := command(core.Rollback), command(core.Rollback)
			tx, _ := begin(t, elsewhere, first)
			running = append(running, tx)
			waiting, giveUp := context.WithCancel(t.Context())
			another := later(func() error {
				_, _, err := st.Begin(waiting, other)
				return err
			})
			_, claimed, err := st.Begin(within(t, 30*time.Second), again(first)) // no slot gets free
			require.NoError(t, err)
			require.True(t, claimed.Busy)

			giveUp()
			require.Error(t, <-another, "another command waits for as long as it may") // SQLite may say that it was interrupted
			for _, tx := range running {
				require.NoError(t, tx.Rollback())
			}
			begin(t, st, other)
		})
	}
}

// A claim that waits for a slot, or for a connection, has sent nothing, and its error says so: there is nothing to release.
//
// CONTRACT F-1
func TestClaimInLineIsNotSent(t *testing.T) {
	t.Parallel()
	db := newPostgres(t, 5) // three slots for claims, one connection for renewals
	st := newStore(t, db)
	require.NoError(t, st.Validate(t.Context()))
	pool := try(db.DB()).ok(t)
	for range 4 {
		taken := try(pool.Conn(t.Context())).ok(t)
		t.Cleanup(func() { _ = taken.Close() })
	}
	errs := atOnce(20, func(int) error {
		bounded, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := st.Claim(bounded, command(core.Park))
		return err
	})
	for _, err := range errs {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, store.ErrCrowded)
	}
}

// traced is a connector that a package has wrapped around another one.
type traced struct {
	driver.Connector
	name string
}

// A database/sql pool without a limit takes its connections from a pgxpool of four. Nobody reserves a connection then: four
// handlers that read once through the plain db would hang until their deadline. The store wants to know the limit.
//
// CONTRACT F-7
func TestPoolBelowThePool(t *testing.T) {
	t.Parallel()
	address := migratedURL(t)
	const most = 4
	config := try(pgxpool.ParseConfig(address)).ok(t)
	config.MaxConns = most
	below := try(pgxpool.NewWithConfig(t.Context(), config)).ok(t)
	t.Cleanup(below.Close)

	open := func(pool *sql.DB, limit int) *gorm.DB {
		pool.SetMaxOpenConns(limit)
		pool.SetMaxIdleConns(0) // idle ones would be missing below
		db := try(gorm.Open(postgres.New(postgres.Config{Conn: pool}), &gorm.Config{Logger: logger.Discard})).ok(t)
		t.Cleanup(func() { require.NoError(t, pool.Close()) })
		return db
	}
	wrapped := func() *sql.DB { return sql.OpenDB(&traced{traced{stdlib.GetPoolConnector(below), "inner"}, "outer"}) }
	guarded := func() *sql.DB { return sql.OpenDB(gormstore.SQLWriteGuard(stdlib.GetPoolConnector(below))) }
	for _, pool := range []func() *sql.DB{func() *sql.DB { return stdlib.OpenDBFromPool(below) }, wrapped, guarded} {
		_, err := gormstore.New(open(pool(), 0))
		require.ErrorContains(t, err, "the *sql.DB has no limit, and takes its connections from a pgxpool, which has 4")
		_, err = inbox.New(open(pool(), 0), stockInbox)
		require.ErrorContains(t, err, "the *sql.DB has no limit")
		_, err = gormstore.New(open(pool(), most+1))
		require.ErrorContains(t, err, "SetMaxOpenConns(5) is more than the pgxpool below has, 4")
	}
	_, err := gormstore.New(open(stdlib.OpenDB(*config.ConnConfig), 0))
	require.NoError(t, err, "without a limit anywhere nobody waits")

	db := open(stdlib.OpenDBFromPool(below), most)
	store := newStore(t, db)
	ctx := within(t, 30*time.Second)
	for _, err := range atOnce(2*most, func(int) error {
		tx, claimed, err := store.Begin(ctx, command(core.Rollback))
		if err != nil || !assert.True(t, claimed.Won) {
			return err
		}
		if err := db.WithContext(ctx).Raw("SELECT 1").Scan(new(int)).Error; err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return seal(ctx, tx, paid(), false)
	}) {
		require.NoError(t, err)
	}
}

// crowdedApp is an app on PostgreSQL with a pool of four, three of whose connections are for attempts and claims.
func crowdedApp(t *testing.T) (db *gorm.DB, st *gormstore.Store) {
	t.Helper()
	db = newPostgres(t, 4)
	st = newStore(t, db)
	require.NoError(t, st.Validate(t.Context()))
	return db, st
}

// takePlaces takes the places of the pool with attempts, until leave is called.
func takePlaces(t *testing.T, st *gormstore.Store) (leave func()) {
	t.Helper()
	var all []store.Attempt
	for range 3 {
		tx, _ := begin(t, st, command(core.Rollback))
		all = append(all, tx)
	}
	return func() {
		for _, tx := range all {
			require.NoError(t, tx.Rollback())
		}
	}
}

// Attempts and claims of all recoveries share three quarters of the pool: the app's own routes have the rest, also where
// the records are locked and every claim waits.
//
// CONTRACT F-7
func TestClaimsLeaveTheAppAQuarter(t *testing.T) {
	t.Parallel()
	db, st := crowdedApp(t)
	leave := takePlaces(t, st)
	bounded, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := st.Claim(bounded, command(core.Park))
	require.ErrorIs(t, err, store.ErrCrowded)
	require.Zero(t, try(db.DB()).ok(t).Stats().WaitCount)
	leave()
	require.True(t, try(st.Claim(t.Context(), command(core.Park))).ok(t).Won)
}

// The line has an end: who would wait for longer than it may is refused at once.
//
// CONTRACT F-1
func TestLineHasAnEnd(t *testing.T) {
	t.Parallel()
	_, st := crowdedApp(t)
	leave := takePlaces(t, st)
	defer leave()
	bounded, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	refused := make(chan error)
	for range 9_000 {
		go func() {
			_, err := st.Claim(bounded, command(core.Park))
			select {
			case refused <- err:
			case <-bounded.Done():
			}
		}()
	}
	err := <-refused
	require.ErrorIs(t, err, store.ErrCrowded)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

// toldClient is the context of a client. It tells that somebody waits for its end.
type toldClient struct {
	context.Context
	asked func()
}

// Done implements [context.Context].
func (c toldClient) Done() <-chan struct{} {
	c.asked()
	return c.Context.Done()
}

// A client that leaves while it is in the line gives its place there up: nothing is run for it.
//
// CONTRACT F-1
func TestClientThatLeavesTheLine(t *testing.T) {
	t.Parallel()
	for _, recovery := range []core.Recovery{core.Rollback, core.Park} {
		t.Run(recovery.String(), func(t *testing.T) {
			_, st := crowdedApp(t)
			m := try(core.New(core.Config{Store: st, ClaimTimeout: time.Hour, Policy: core.Policy{Recovery: recovery}})).ok(t)
			leave := takePlaces(t, st)
			ends, hangUp := context.WithCancel(t.Context())
			client := toldClient{ends, hangUp}
			r := httptest.NewRequestWithContext(client, http.MethodPost, "/pay", strings.NewReader("{}"))
			r.Header.Set("Idempotency-Key", "one")
			p := core.Principal{Issuer: "https://issuer.example", Subject: "alice"}
			r, reply := m.Admit(r, "/pay", p)
			require.Nil(t, reply)
			attempt, reply := m.Begin(r, "/pay", p)
			require.Nil(t, attempt)
			require.Equal(t, http.StatusServiceUnavailable, reply.Status)
			leave()
		})
	}
}

// Where the name of the server does not resolve, a call does not try for as long as it may, with a place in its hand.
//
// CONTRACT F-1
func TestNameThatDoesNotResolve(t *testing.T) {
	t.Parallel()
	config := try(pgx.ParseConfig("postgres://idem@database.invalid/idem?sslmode=disable")).ok(t)
	var asked atomic.Int32
	config.LookupFunc = func(context.Context, string) ([]string, error) {
		asked.Add(1)
		return nil, &net.DNSError{Err: "no such host", Name: "database.invalid", IsNotFound: true}
	}
	pool := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = pool.Close() })
	quiet := &gorm.Config{Logger: logger.Discard, DisableAutomaticPing: true}
	st := newStore(t, try(gorm.Open(postgres.New(postgres.Config{Conn: pool}), quiet)).ok(t))
	asked.Store(0) // what is tried at the start
	err := st.End(within(t, 2*time.Second), store.Ticket{ID: store.ID{1}}, store.Ending{State: store.Free})
	require.ErrorContains(t, err, "no such host")
	require.EqualValues(t, 1, asked.Load())
}

// A repeat that comes to the attempt's process needs no connection to be told that it is running, however many repeats
// come: here there is none left. The key is free once the attempt is over.
//
// CONTRACT M-2
func TestRepeatInFlightNeedsNoConnection(t *testing.T) {
	t.Parallel()
	for _, d := range everyWay {
		t.Run(d.name, func(t *testing.T) {
			db := d.fresh(t)(t)
			pool := try(db.DB()).ok(t)
			st := newStore(t, db)
			first := command(core.Rollback)
			tx, _ := begin(t, st, first)
			pool.SetMaxOpenConns(pool.Stats().InUse)
			_, claimed, err := st.Begin(within(t, 30*time.Second), again(first))
			require.NoError(t, err)
			require.True(t, claimed.Busy)

			pool.SetMaxOpenConns(0)
			require.NoError(t, tx.Rollback())
			begin(t, st, again(first))
		})
	}
}
