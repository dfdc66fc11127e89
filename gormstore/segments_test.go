package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// A Resume attempt whose connection breaks, and then a client that repeats until it is answered: each row once, and one call
// of the provider, because its result outlives its segment.
//
// CONTRACT F-2, X-4, X-14
func TestResumeIsCutAtAnyByte(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		cut := newCuttable(t, way)
		a := newStepApp(t, cut.store)
		effects := 0
		cut.atAnyByte(t, func(at string, mend func()) {
			key, calls := fmt.Sprint("cut-", effects), 0
			handle := func(ctx context.Context) error { return reserveCallBook(ctx, &calls) }
			first := a.as(key, handle)
			mend()
			w := first
			eventually(t, "an answer", func() bool {
				w = a.as(key, handle)
				return w.Code == http.StatusCreated
			})
			if first.Code == http.StatusCreated {
				require.Equal(t, "reused", w.Header().Get("Idempotency-Result"), at)
			}
			effects += 2
			require.Equal(t, effects, countEffects(t, cut.db), at)
			require.Equal(t, 1, calls, at)
		})
	})
}

// The answer of a commit at a repeated call is lost. The call was begun before, so that its start does not tell whether the
// commit has taken effect; the result in front of it does. And the store's clock is known, so that the call is made.
//
// CONTRACT
func TestCommitAtARepeatedCallIsReadBack(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		for _, arrives := range []bool{false, true} {
			cut := newCuttable(t, way)
			a := newStepApp(t, cut.store)
			calls := map[string]int{}
			fail := true
			call := func(ctx context.Context, name string) error {
				return core.CallDo(ctx, name, func(context.Context, core.DerivedKey) error {
					calls[name]++
					if fail {
						return context.DeadlineExceeded
					}
					return nil
				}, core.Dedup(time.Hour))
			}
			handle := func(ctx context.Context) error {
				first := call(ctx, "charge")
				if second := call(ctx, "ship"); second != nil {
					return second
				}
				return first
			}
			require.Equal(t, http.StatusInternalServerError, a.post(handle).Code)
			fail = false
			atCommit, done := once(func(toServer bool, chunk []byte) bool {
				return isCommitted(chunk) && toServer != arrives && calls["charge"] >= 2
			})
			cut.begins(atCommit)
			w := a.post(handle)
			cut.set(nil)
			require.True(t, done.Load())
			if arrives {
				require.Equal(t, http.StatusCreated, w.Code, w.Body)
				require.Equal(t, map[string]int{"charge": 2, "ship": 2}, calls)
			} else {
				require.NotEqual(t, http.StatusCreated, w.Code)
				require.Equal(t, http.StatusCreated, a.post(handle).Code)
				require.Equal(t, map[string]int{"charge": 2, "ship": 2}, calls, "the result of the first call was recorded alone")
			}
		}
	})
}

// unsure is a store whose seals commit, and whose answers to them are lost for good where lost says so.
type unsure struct {
	*gormstore.Store
	lost func(store.Seal) bool
}

func (s *unsure) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	segments, claimed, err := s.Store.Begin(ctx, c)
	if segments != nil {
		segments = &unsureSegments{segments, s}
	}
	return segments, claimed, err
}

type unsureSegments struct {
	store.Attempt
	store *unsure
}

func (s *unsureSegments) Seal(ctx context.Context, seal store.Seal) (time.Time, error) {
	now, err := s.Attempt.Seal(ctx, seal)
	if err == nil && s.store.lost(seal) {
		err = core.ErrUnconfirmed
	}
	return now, err
}

// readRows reads outside of a step.
func readRows(ctx context.Context) error {
	var n int64
	return gormstore.Tx(ctx).Model(&effect{}).Count(&n).Error
}

// requireNothingOpen checks that no attempt holds the key, and nobody a connection or SQLite's writer.
func requireNothingOpen(t *testing.T, store *gormstore.Store, db *gorm.DB, id core.ID) {
	t.Helper()
	require.False(t, try(store.InFlight(t.Context(), id)).ok(t), "somebody holds the key")
	requireIdle(t, db)
}

// A handler that reads behind a commit of which nothing is known opens a segment once more. It ends with the attempt.
//
// CONTRACT
func TestNothingIsLeftOpenBehindAnUnknownCommit(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		lost := true
		module := try(core.New(core.Config{
			Store:  &unsure{st, func(seal store.Seal) bool { return lost && seal.Steps != nil && seal.Steps[0].Name == "reserve" }},
			Policy: core.Policy{Recovery: core.Resume}, ClaimTimeout: 5 * time.Second,
		})).ok(t)
		a := &stepApp{t, module}
		var id core.ID
		handle := func(ctx context.Context) error {
			id, _ = core.Operation(ctx)
			if err := errors.Join(callProvider(ctx), core.Checkpoint(ctx), reserve(ctx, nil)); err != nil {
				return err
			}
			err := core.Checkpoint(ctx)
			_ = readRows(ctx) // for the page that tells the error
			return err
		}
		w := a.post(handle)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), string(core.CodeCommitUnconfirmed))
		requireNothingOpen(t, st, db, id)
		lost = false
		advance(t, db, store.DefaultLease)
		require.Equal(t, http.StatusCreated, a.post(handle).Code)
		require.Equal(t, 1, countEffects(t, db))
	})
}

// What a handler leaves behind opens no segment after its attempt, whatever context it has.
//
// CONTRACT
func TestNoSegmentOpensBehindTheAttempt(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, store *gormstore.Store) {
		a := newStepApp(t, store)
		left := t.Context()
		var id core.ID
		w := a.post(func(ctx context.Context) error {
			id, _ = core.Operation(ctx)
			left = context.WithoutCancel(ctx)
			return errors.Join(callProvider(ctx), errors.New("the next attempt goes on"))
		})
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.Error(t, readRows(left))
		requireNothingOpen(t, store, db, id)
		require.Equal(t, http.StatusCreated, a.post(func(ctx context.Context) error { return callProvider(ctx) }).Code)
	})
}

// The deadline has undone a segment, and a handler that ignores it has opened the next one by reading. Its steps, whose rows
// are gone, must not be sealed with that.
//
// CONTRACT X-14
func TestStepsAreSealedWithTheirOwnRows(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		c := command(core.Resume)
		segments, _ := resume(t, st, c)
		ctx := segments.Bind(t.Context(), nil)
		require.NoError(t, err2(segments.Seal(ctx, store.Seal{Steps: []store.StepRecord{{Name: "call", Kind: store.ProviderStep}}})))
		require.NoError(t, segments.Step(ctx, addEffect))
		require.NoError(t, segments.Rollback())
		reads, ok := gormstore.SQLTx(ctx)
		require.True(t, ok)
		var n int
		require.NoError(t, reads.QueryRowContext(ctx, "SELECT count(*) FROM effects").Scan(&n))
		require.Zero(t, n)

		rows := store.Seal{Steps: []store.StepRecord{{Name: "reserve", Kind: store.DatabaseStep}}}
		require.ErrorIs(t, err2(segments.Seal(ctx, rows)), core.ErrRetryable)
		require.Len(t, try(st.Steps(ctx, c.ID)).ok(t), 1)
		require.NoError(t, segments.Rollback())
		requireIdle(t, db)
	})
}

// The answer to the first commit is lost, and before it can be read back another attempt takes the operation over and ends it.
// The rows of that commit are the operation's: the first client is told what a repeat is told, never that nothing was applied.
//
// CONTRACT
func TestFirstSegmentIsTakenOverBeforeItIsReadBack(t *testing.T) {
	t.Parallel()
	cut := newCuttable(t, overPgx)
	first, other := newStepApp(t, cut.store), newStepApp(t, newStore(t, cut.db))
	calls := 0
	var runs, gone atomic.Bool
	handle := func(ctx context.Context) error {
		runs.Store(true)
		return reserveCallBook(ctx, &calls)
	}
	cut.begins(func(toServer bool, chunk []byte) (int, bool) {
		if !toServer && runs.Load() && isCommitted(chunk) {
			gone.Store(true)
		}
		if gone.Load() {
			return 0, true
		}
		return len(chunk), false
	})
	told := make(chan *httptest.ResponseRecorder)
	go func() { told <- first.post(handle) }()
	eventually(t, "the commit is there, and its answer lost", gone.Load)
	advance(t, cut.db, store.DefaultLease)
	eventually(t, "another attempt goes on", func() bool { return other.post(handle).Code == http.StatusCreated })
	cut.set(nil)
	w := <-told
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	require.Equal(t, "reused", w.Header().Get("Idempotency-Result"))
	require.Equal(t, 2, countEffects(t, cut.db))
	require.Equal(t, 1, calls)
}
