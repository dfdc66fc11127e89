package gormstore_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// A Resume attempt whose connection breaks, and then a client that repeats until it is answered: each row once, and one call
// of the provider, because its result outlives its segment.
//
// CONTRACT F-2, X-4, X-14
func TestResumeIsCutAtAnyByte(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way way) {
		cut := newCuttable(t, way)
		a := newStepApp(t, cut.store)
		effects := 0
		cut.atAnyByte(t, func(at string, mend func()) {
			key, calls := fmt.Sprint("cut-", effects), 0
			handle := func(ctx context.Context) error {
				if err := reserve(ctx, nil); err != nil {
					return err
				}
				err := core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error { calls++; return nil }, core.Dedup(time.Hour))
				if err != nil {
					return err
				}
				return gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error { return tx.Create(&effect{Name: "booked"}).Error })
			}
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
	t.Parallel()
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
			var once atomic.Bool
			cut.begins(func(toServer bool, chunk []byte) (int, bool) {
				if !bytes.Contains(chunk, []byte("COMMIT\x00")) || toServer == arrives || calls["charge"] < 2 ||
					!once.CompareAndSwap(false, true) {
					return len(chunk), false
				}
				return 0, true
			})
			w := a.post(handle)
			cut.set(nil)
			require.True(t, once.Load())
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
