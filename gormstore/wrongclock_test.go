package gormstore_test

import (
	"database/sql/driver"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/gormstore/journal"
)

// The clock of PostgreSQL as the statements read it, which a test can set.
var settable = []string{
	"CREATE TABLE clock AS SELECT interval '0' AS ahead",
	"ALTER FUNCTION pg_catalog.statement_timestamp() RENAME TO true_statement",
	"CREATE FUNCTION pg_catalog.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS " +
		"'SELECT pg_catalog.true_statement() + (SELECT ahead FROM public.clock)'",
}

// withWrongClock runs a test on a database of each kind, whose clock the test can put ahead, or behind.
func withWrongClock(t *testing.T, run func(t *testing.T, db *gorm.DB, ahead func(by time.Duration))) {
	t.Helper()
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		url := migratedURL(t)
		admin := openPostgres(t, url, 1)
		execute(t, admin, settable...)
		run(t, openPostgres(t, url, 8), func(by time.Duration) {
			execute(t, admin, fmt.Sprintf("UPDATE clock SET ahead = '%d seconds'", int(by.Seconds())))
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		var ahead atomic.Int64
		now := func(driver.ExecerContext, []driver.Value) (driver.Value, error) {
			return float64(time.Now().Add(time.Duration(ahead.Load())).UnixMilli()) / 1000, nil
		}
		run(t, sqliteWith(t, "unixepoch", now), func(by time.Duration) { ahead.Store(int64(by)) })
	})
}

const days = 24 * time.Hour

// How old an intent is that was first sent by a wrong clock could never be known, and one that was ended by it would be
// swept at once, and get another key: nothing begins or ends then.
//
// CONTRACT T-5, C-1
func TestIntentsWithAWrongClock(t *testing.T) {
	withWrongClock(t, func(t *testing.T, db *gorm.DB, ahead func(by time.Duration)) {
		j := newJournal(t, db)
		sent := entryOf(t, "order-7", 1)
		require.ErrorContains(t, err2(journal.New(db, journal.MaxClockSkew(time.Second))), "MaxClockSkew")
		ahead(90 * time.Minute)
		tolerant := try(journal.New(db, journal.MaxClockSkew(2*time.Hour))).ok(t)
		require.NoError(t, err2(tolerant.Begin(t.Context(), entryOf(t, "order-6", 1))))
		require.NoError(t, tolerant.End(t.Context(), "order-6"))
		for _, by := range []time.Duration{-40 * days, 40 * days} {
			ahead(by)
			require.ErrorIs(t, err2(j.Begin(t.Context(), sent)), core.ErrClock)
			_, there, err := j.Find(t.Context(), sent.Intent)
			require.NoError(t, err)
			require.False(t, there)
		}
		ahead(0)
		begun := try(j.Begin(t.Context(), sent)).ok(t)
		require.Less(t, begun.Age, time.Minute)

		for _, by := range []time.Duration{-40 * days, 40 * days} {
			ahead(by)
			found, _, err := j.Find(t.Context(), sent.Intent)
			require.NoError(t, err)
			require.Equal(t, intents.UnknownAge, found.Age)
			require.ErrorIs(t, j.End(t.Context(), sent.Intent), core.ErrClock)
			require.ErrorIs(t, db.Transaction(func(tx *gorm.DB) error { return j.Done(tx, sent.Intent) }), core.ErrClock)
		}
		ahead(0)
		require.Len(t, try(j.Pending(t.Context(), "", 10)).ok(t), 1)
		require.NoError(t, j.End(t.Context(), sent.Intent))
		require.NoError(t, j.End(t.Context(), sent.Intent), "it has ended before")
		require.Zero(t, try(j.Sweep(t.Context(), journal.MinKeep, 10)).ok(t))
		require.Equal(t, begun.Key, try(j.Begin(t.Context(), entryOf(t, sent.Intent, 0))).ok(t).Key)
	})
}

// A first attempt in the future was noted by a clock that was ahead, perhaps long ago: its age is not known, which is too
// old. And an end is never before the begin, whatever the clock has done in between.
//
// CONTRACT T-5
func TestIntentsOfAClockThatHasGoneBack(t *testing.T) {
	withWrongClock(t, func(t *testing.T, db *gorm.DB, ahead func(by time.Duration)) {
		j := newJournal(t, db)
		sent := entryOf(t, "order-7", 1)
		ahead(50 * time.Minute)
		try(j.Begin(t.Context(), sent)).ok(t)
		ahead(49*time.Minute + 30*time.Second) // set right, by a little
		require.Zero(t, try(j.Begin(t.Context(), sent)).ok(t).Age)
		ahead(0)
		require.Equal(t, intents.UnknownAge, try(j.Begin(t.Context(), sent)).ok(t).Age)
		require.NoError(t, j.End(t.Context(), sent.Intent))
		require.False(t, query[bool](t, db, "SELECT ended_at < begun_at FROM idempotency_intent"))
	})
}

// A marker that is made by a clock that is behind is swept before its time, and a message that is too old by one that is
// ahead raises the floor for good. So the message is handed back. One that was processed before is a duplicate whatever the clock.
//
// CONTRACT T-5, Q-1, Q-3
func TestMessagesWithAWrongClock(t *testing.T) {
	withWrongClock(t, func(t *testing.T, db *gorm.DB, ahead func(by time.Duration)) {
		st, box := newStore(t, db), newInbox(t, db, stockInbox)
		tolerant := stockInbox
		tolerant.MaxClockSkew = 2 * time.Hour
		ahead(90 * time.Minute)
		require.NoError(t, newInbox(t, db, tolerant).Process(t.Context(), message(), func(*gorm.DB) error { return nil }))
		tolerant.MaxClockSkew = time.Second
		require.ErrorContains(t, err2(inbox.New(db, tolerant)), "MaxClockSkew")
		for _, by := range []time.Duration{-40 * days, 40 * days} {
			m, earlier := message(), message()
			m.Published, earlier.Published = time.Now(), time.Now().Add(-time.Hour)
			ahead(by)
			require.ErrorIs(t, box.Process(t.Context(), m, never(t)), core.ErrClock)
			tx, ctx := begin(t, st, command(core.Rollback))
			require.ErrorIs(t, box.Process(ctx, m, never(t)), core.ErrClock, "joined")
			require.NoError(t, tx.Rollback())
			ahead(0)
			processed := 0
			handle := func(*gorm.DB) error { processed++; return nil }
			require.NoError(t, box.Process(t.Context(), m, handle))
			require.NoError(t, box.Process(t.Context(), earlier, handle))
			require.Equal(t, 2, processed, "neither is too old")
			require.Zero(t, try(st.Sweep(t.Context(), 10, store.Window{})).ok(t).Messages)
			ahead(by)
			require.NoError(t, box.Process(t.Context(), m, never(t)))
			ahead(0)
			require.NoError(t, box.Process(t.Context(), m, never(t)))
		}
	})
}

// An answer that is recorded by a clock that has gone back would be over when the clock is right again, and the command would
// run a second time: the attempt is undone, or its answer is kept as long as by the clock of its claim.
//
// CONTRACT T-5, X-0
func TestAnswerByAClockThatHasGoneBack(t *testing.T) {
	withWrongClock(t, func(t *testing.T, db *gorm.DB, ahead func(by time.Duration)) {
		st := newStore(t, db)
		rollback, park := newModule(t, st, core.Policy{Recovery: core.Rollback}), newModule(t, st, core.Policy{Recovery: core.Park})
		rows := 0
		for _, freed := range []bool{false, true} {
			for _, status := range []int{http.StatusCreated, http.StatusPaymentRequired} {
				key := fmt.Sprintf("key-%t-%d", freed, status)
				if freed { // its record stays, and the answer takes its place
					serve(t, park, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						core.NotApplied(r.Context())
						w.WriteHeader(http.StatusConflict)
					}))
				}
				ran := 0
				send := func(by time.Duration) string {
					w := serve(t, rollback, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						require.NoError(t, addEffect(r.Context()))
						ran++
						ahead(by)
						w.WriteHeader(status)
					}))
					ahead(0)
					return w.Header().Get("Idempotency-Result")
				}
				first := send(-40 * days)
				require.Equal(t, 1, ran)
				require.Equal(t, first != "created", send(0) == "created", "%s: %s", key, first)
				require.Equal(t, "reused", send(0))
				if status == http.StatusCreated {
					rows++
				}
				require.Equal(t, rows, countEffects(t, db))
			}
		}
	})
}

// A renewal by a clock that is behind does not end a live lease before its time, once the clock is set right: its owner relies
// on it. A lease of no length ends it.
//
// CONTRACT X-1, T-1
func TestRenewalByAClockThatIsBehind(t *testing.T) {
	withWrongClock(t, func(t *testing.T, db *gorm.DB, ahead func(by time.Duration)) {
		st := newStore(t, db)
		require.NoError(t, st.Validate(t.Context()))
		ticket := won(t, st, command(core.Park))
		until := func() time.Time {
			return try(st.Find(t.Context(), ticket.ID, store.Viewer{All: true})).ok(t).LeaseUntil
		}
		begun := until()
		ahead(-25 * time.Second)
		require.NoError(t, st.Renew(t.Context(), ticket, lease))
		require.Equal(t, begun, until())
		ahead(10 * time.Second)
		require.NoError(t, st.Renew(t.Context(), ticket, lease))
		require.True(t, until().After(begun))
		require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Running}))
		require.False(t, until().After(begun))
	})
}
