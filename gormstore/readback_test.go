package gormstore_test

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// The first commit of an operation never reaches the server, and the read-back writes a free record in its place. That is no
// commit, also where the record was free before, with a step of the same name.
//
// CONTRACT
func TestAFreeRecordIsNoCommit(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		for name, before := range map[string]bool{"first": false, "freed": true} {
			cut := newCuttable(t, way)
			a := newStepApp(t, cut.store)
			calls, fail := 0, true
			handle := func(ctx context.Context) error {
				return core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error {
					calls++
					if fail {
						return context.DeadlineExceeded
					}
					return nil
				}, core.Dedup(time.Hour))
			}
			if before {
				require.Equal(t, http.StatusInternalServerError, a.post(handle).Code)
				page := try(cut.store.List(t.Context(), store.Query{Resumable: true, HalfDone: true, Limit: 1})).ok(t)
				require.Len(t, page, 1)
				require.NoError(t, cut.store.End(t.Context(), page[0].Ticket, store.Ending{State: store.Free}))
			}
			fail, calls = false, 0
			lost, done := once(func(toServer bool, chunk []byte) bool { return toServer && isCommitted(chunk) })
			cut.begins(lost)
			w := a.post(handle)
			cut.set(nil)
			require.True(t, done.Load())
			require.Zero(t, calls, "%s: the start of the call is not durable", name)
			require.Equal(t, http.StatusServiceUnavailable, w.Code, "%s: %s", name, w.Body)
			require.Equal(t, http.StatusCreated, a.post(handle).Code)
			require.Equal(t, 1, calls)
		}
	})
}

// A failover cuts many COMMITs at once. Each read-back leaves a free record: no list, count or cap sees it, a first attempt on
// such a key costs as many statements as on any other one, and a day later it is swept.
//
// CONTRACT X-4, M-8, T-3
func TestCommitsThatAFailoverCuts(t *testing.T) {
	t.Parallel()
	const many, atOnce = 24, 6
	url := migratedURL(t)
	read := pgtest.Statements(t, url)
	db, p := openPostgres(t, url, 2), newProxy(t, url)
	through := openPostgres(t, p.url, 2*atOnce)
	st, direct := newStore(t, through), newStore(t, db)
	warm, _ := beginRow(t, direct, command(store.Rollback))
	require.NoError(t, warm.Rollback())
	commands := make([]store.Claim, many)
	for i := range commands {
		commands[i] = command([]store.Recovery{store.Rollback, store.Resume}[i%2])
	}
	p.set(func(toServer bool, chunk []byte) (int, bool) {
		if lost := toServer && bytes.Contains(chunk, paid().Answer.Body); lost {
			return 0, true
		}
		return len(chunk), false
	})
	for together := range slices.Chunk(commands, atOnce) {
		var ends []chan error
		for _, c := range together {
			a, _ := begin(t, st, c)
			ends = append(ends, later(func() error { return seal(t.Context(), a, paid(), false) }))
		}
		for _, end := range ends {
			require.ErrorIs(t, <-end, store.ErrRetryable)
		}
	}
	p.set(nil)

	require.Equal(t, many, query[int](t, db, "SELECT count(*) FROM idempotency_record WHERE state = 5"), "a row for each")
	all := store.Query{Unknown: true, Resumable: true, HalfDone: true, Limit: many}
	require.Empty(t, try(direct.List(t.Context(), all)).ok(t))
	require.Empty(t, try(direct.Count(t.Context(), all)).ok(t))
	require.Zero(t, try(direct.CountOpen(t.Context(), commands[0].Scope, many)).ok(t), "MaxOpen")
	first := func(c store.Claim) (statements []string) {
		read()
		a, _ := begin(t, direct, again(c))
		require.NoError(t, seal(t.Context(), a, paid(), false))
		return read()
	}
	for _, c := range commands[:2] {
		require.Len(t, first(c), len(first(command(c.Recovery))))
		requireState(t, direct, c, store.Completed)
	}
	advance(t, db, 23*time.Hour)
	require.Zero(t, sweep(t, direct, many).Dropped, "old messages may be under way")
	advance(t, db, time.Hour)
	require.Equal(t, many-2, sweep(t, direct, 2*many).Dropped)
	for _, c := range commands[2:] {
		requireNothing(t, direct, c)
	}
}

// SQLite has one writer. An attempt that does not get it in time cannot seal, and leaves its key free.
//
// CONTRACT M-2, X-14
func TestAnAttemptThatCannotSealLeavesItsKey(t *testing.T) {
	t.Parallel()
	db := freshSQLite(t)(t)
	execute(t, db, "CREATE TABLE parents (id integer PRIMARY KEY)",
		"CREATE TABLE children (parent integer REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)")
	st := newStore(t, db)
	for name, run := range map[string]func(t *testing.T) (store.Claim, store.Attempt){
		"the first segment": func(t *testing.T) (store.Claim, store.Attempt) {
			t.Helper()
			c := command(store.Resume)
			a, _ := begin(t, st, c)
			return c, a
		},
		"the refusal that is recorded alone": func(t *testing.T) (store.Claim, store.Attempt) {
			t.Helper()
			c := command(store.Rollback)
			a, ctx := begin(t, st, c)
			require.NoError(t, gormstore.Tx(ctx).Exec("INSERT INTO children (parent) VALUES (1)").Error)
			require.ErrorIs(t, seal(t.Context(), a, paid(), false), store.ErrAborted)
			return c, a
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, a := run(t)
			other, _ := beginRow(t, st, command(store.Rollback))
			impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			require.Error(t, seal(impatient, a, refused(), true))
			require.NoError(t, other.Rollback())
			requireNothing(t, st, c)
			require.False(t, try(st.InFlight(t.Context(), c.ID)).ok(t), "nobody is at work")
			requireFree(t, st, c)
		})
	}
}

// A takeover that waited for a place in vain has sent nothing. There is nothing to give back: that would make the slow owner
// stale, and its call's result would be lost.
//
// CONTRACT F-1, X-2, X-15
func TestTakeoverInLineIsNotSent(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	st, admin := newStore(t, openPostgres(t, url, 5)), openPostgres(t, url, 2) // three places for attempts, one connection for renewals
	c := command(store.Resume)
	slow, _ := begin(t, st, c)
	require.NoError(t, err2(slow.Seal(t.Context(), store.Seal{Start: &store.StepRecord{Name: "charge", Kind: store.ProviderStep}})))
	execute(t, admin, "UPDATE idempotency_record SET lease_until = 1")
	locked := admin.Begin()
	require.NoError(t, locked.Exec("LOCK TABLE idempotency_record").Error)
	waiting := func(n int) {
		eventually(t, "they wait", func() bool {
			return query[int](t, admin, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "+
				"wait_event_type = 'Lock'") == n
		})
	}
	takeover := again(c)
	var claimed store.Claimed
	taken := later(func() (err error) {
		bounded, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, claimed, err = st.Begin(bounded, takeover)
		return err
	})
	waiting(1)
	others := make(chan error)
	for range 3 { // two get places, and one gets the place that the takeover's look leaves
		go func() {
			tx, _, err := st.Begin(t.Context(), command(store.Rollback))
			if err == nil {
				t.Cleanup(func() { _ = tx.Rollback() })
			}
			others <- err
		}()
	}
	waiting(4) // the last one looks while it waits for a place
	require.NoError(t, locked.Commit().Error)
	for range 3 {
		require.NoError(t, <-others)
	}
	require.ErrorIs(t, <-taken, store.ErrCrowded)
	require.NotEqual(t, takeover.Owner, claimed.Record.Owner, "it is not given back")
}
