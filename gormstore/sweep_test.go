package gormstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
)

// states counts the records by their state.
func states(t *testing.T, db *gorm.DB) map[int]int {
	t.Helper()
	var rows []struct{ State, N int }
	require.NoError(t, db.Raw("SELECT state, count(*) AS n FROM idempotency_record GROUP BY state").Scan(&rows).Error)
	counts := map[int]int{}
	for _, r := range rows {
		counts[r.State] = r.N
	}
	return counts
}

const running, tombstone = 1, 4

// A record is found again by its place in its table, and each partition has the same places.
//
// CONTRACT T-3, F-5
func TestSweepOfPartitions(t *testing.T) {
	db := parallelPostgres(t)
	execute(t, db, append(partitioned, "CREATE TABLE deep PARTITION OF even FOR VALUES WITH (MODULUS 1, REMAINDER 0)")...)
	st := newStore(t, db)
	require.NoError(t, st.Validate(t.Context()))
	for i := range 40 {
		c := command(core.Park)
		ticket := won(t, st, c)
		if i%2 == 0 {
			require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Completed, Answer: paid()}))
		}
	}
	const past = "- 90 * 86400000000"
	for _, step := range []struct {
		update string
		want   map[int]int
	}{
		{"expires_at = expires_at " + past, map[int]int{running: 20, tombstone: 20}},
		{"purge_at = purge_at " + past, map[int]int{running: 20}},
	} {
		require.NoError(t, db.Exec("UPDATE idempotency_record SET due_at = due_at "+past+", "+step.update+
			" WHERE state <> ?", running).Error)
		sweepOnce(t, st)
		require.Equal(t, step.want, states(t, db))
	}
}

func sweepOnce(t *testing.T, st *gormstore.Store) {
	t.Helper()
	require.NoError(t, err2(st.Sweep(t.Context(), 100, store.Window{})))
}

// What another transaction holds is left for the next sweep: a sweep waits for nobody.
//
// CONTRACT T-3
func TestSweepPassesOverWhatIsHeld(t *testing.T) {
	db := parallelPostgres(t)
	st, box := newStore(t, db), newInbox(t, db, stockInbox)
	var held store.Claim
	for range 2 {
		held = command(core.Park)
		answered(t, st, held)
		require.NoError(t, box.Process(t.Context(), message(), stock))
	}
	advance(t, db, 4*24*time.Hour)
	age(t, db, inbox.DefaultKeep)
	tx := opened(t, db)
	require.NoError(t, tx.Exec("SELECT 1 FROM idempotency_record WHERE id = ? FOR UPDATE", held.ID[:]).Error)
	require.NoError(t, tx.Exec("SELECT 1 FROM processed_message LIMIT 1 FOR UPDATE").Error)
	for range 2 {
		require.Equal(t, store.Swept{Tombstones: 1, Messages: 1}, try(st.Sweep(patient(t), 100, store.Window{})).ok(t))
		require.NoError(t, tx.Rollback().Error)
		tx = opened(t, db)
	}
	require.Equal(t, map[int]int{tombstone: 2}, states(t, db))
}

// stopper calls first before the first statement that begins with a text, over a driver that sends them one by one.
type stopper struct {
	driver.Connector
	begins string
	first  func()
}

type stopperConn struct {
	*stdlib.Conn
	at *stopper
}

// Connect implements [driver.Connector].
func (s *stopper) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return stopperConn{c.(*stdlib.Conn), s}, nil
}

// QueryContext implements [driver.QueryerContext].
func (c stopperConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.stop(query)
	return c.Conn.QueryContext(ctx, query, args)
}

// ExecContext implements [driver.ExecerContext].
func (c stopperConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.stop(query)
	return c.Conn.ExecContext(ctx, query, args)
}

func (c stopperConn) stop(query string) {
	if stop := c.at.first; stop != nil && strings.HasPrefix(query, c.at.begins) {
		c.at.first = nil
		stop()
	}
}

// A refusal is recorded alone over a free record, whose steps are forgotten. In between a sweep has dropped the record, and
// another attempt has begun a call: its start stays.
//
// CONTRACT
func TestSweepInFrontOfARefusal(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	db := openPostgres(t, url, 4)
	st := newStore(t, db)
	c := command(store.Resume)
	start := store.Seal{Start: &store.StepRecord{Name: "charge", Kind: store.ProviderStep}}
	freed := resumed(t, st, c, start)
	require.NoError(t, st.End(t.Context(), freed, store.Ending{State: store.Free}))

	config := try(pgx.ParseConfig(url)).ok(t)
	stops := &stopper{Connector: stdlib.GetConnector(*config), begins: "DELETE FROM "}
	pool := sql.OpenDB(stops)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	slow := newStore(t, openDB(t, postgres.New(postgres.Config{Conn: pool}), 4))
	require.NoError(t, slow.Validate(t.Context()))
	attempt, _ := resume(t, slow, again(c))
	begun := false
	stops.first = func() {
		advance(t, db, 2*store.DefaultRetention)
		sweepOnce(t, st)
		resumed(t, st, again(c), start)
		begun = true
	}
	require.ErrorIs(t, seal(t.Context(), attempt, refused(), true), store.ErrStale)
	require.True(t, begun)
	require.Equal(t, 1, query[int](t, db, "SELECT count(*) FROM idempotency_step"), "the start of a call that may be under way")
}

// A handler answers 4xx, its rows are undone, and its lock is free. Another attempt that has begun since goes on: the 4xx is not
// recorded.
//
// CONTRACT X-0, M-6
func TestRefusalBesideAnAttempt(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	config := try(pgx.ParseConfig(url)).ok(t)
	stops := &stopper{Connector: stdlib.GetConnector(*config), begins: "SELECT answer.* FROM (SELECT 1 / CASE"}
	pool := sql.OpenDB(stops)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	slow := newStore(t, openDB(t, postgres.New(postgres.Config{Conn: pool}), 4))
	require.NoError(t, slow.Validate(t.Context()))
	c := command(store.Rollback)
	first, _ := begin(t, slow, c)
	other := newStore(t, openPostgres(t, url, 4))
	var second store.Attempt
	stops.first = func() { second, _ = begin(t, other, again(c)) }
	require.ErrorIs(t, seal(t.Context(), first, refused(), true), store.ErrStale)
	require.NoError(t, seal(t.Context(), second, paid(), false))
}

// A sweep drops the record of a timed key between the two statements with which an attempt begins. What the first one has
// read is as it was before.
//
// CONTRACT T-6, X-0
func TestSweepBetweenTheFirstStatements(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	db := openPostgres(t, url, 4)
	st := newStore(t, db)
	c := command(store.Park)
	c.Key = store.KeyTime{Made: time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli()), Timed: true}
	ticket := won(t, st, c)
	answered := store.Completion{Answer: store.Answer{Status: 201}, Retention: time.Hour}
	require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Completed, Answer: answered}))
	advance(t, db, 2*time.Hour)

	config := try(pgx.ParseConfig(url)).ok(t)
	stops := &stopper{Connector: stdlib.GetConnector(*config), begins: lookFirst}
	pool := sql.OpenDB(stops)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	repeat := again(c)
	repeat.Recovery = store.Rollback
	other := newStore(t, openDB(t, postgres.New(postgres.Config{Conn: pool}), 4))
	require.NoError(t, other.Validate(t.Context())) // its self-test looks, too
	swept := false
	stops.first = func() {
		sweepOnce(t, st)
		require.ErrorIs(t, err2(st.Find(t.Context(), c.ID, store.Viewer{All: true})), store.ErrNotFound)
		swept = true
	}
	tx, got, err := other.Begin(t.Context(), repeat)
	if tx != nil {
		defer func() { _ = tx.Rollback() }()
	}
	require.True(t, swept)
	require.NoError(t, err)
	require.False(t, got.Won, "the command has been answered")
	require.True(t, got.KeyRefused || got.Busy, "%+v", got)
}
