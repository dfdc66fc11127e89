package gormstore_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
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
