package gormstore_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// The first commit of an operation never reaches the server, and the read-back writes a free record in its place. That is no
// commit: neither where nothing stands in front of it, nor where the record was free before, with a step of the same name.
//
// CONTRACT
func TestAFreeRecordIsNoCommit(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		for name, before := range map[string]bool{"first": false, "freed": true} {
			for _, checkpoint := range []bool{false, true} {
				cut := newCuttable(t, way)
				a := newStepApp(t, cut.store)
				calls, fail := 0, true
				handle := func(ctx context.Context) error {
					if checkpoint && !fail {
						if err := core.Checkpoint(ctx); err != nil {
							return err
						}
					}
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
		}
	})
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
