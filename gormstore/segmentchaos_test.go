package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// answering runs a handler that answers with a status of its own.
func (a *stepApp) answering(key string, handle func(ctx context.Context) int) *httptest.ResponseRecorder {
	a.t.Helper()
	return serve(a.t, a.module, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(handle(r.Context()))
	}))
}

// deferredParent makes a table whose rows need an effect with their id, which is checked at COMMIT.
const deferredParent = `CREATE TABLE children (parent bigint NOT NULL REFERENCES effects (id) DEFERRABLE INITIALLY DEFERRED)`

// A deferred constraint fails the commit at a call: the call does not leave, nothing of the segment stays, and a success
// does not leave. A refusal is recorded, where nothing has committed before.
//
// CONTRACT
func TestConstraintFailsAtTheCommitOfACall(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		execute(t, db, deferredParent)
		a := newStepApp(t, newStore(t, db))
		handle := func(behindCall, orphan bool, status int) func(ctx context.Context) int {
			return func(ctx context.Context) int {
				if behindCall {
					require.NoError(t, callProvider(ctx))
				}
				require.NoError(t, gormstore.StepDo(ctx, "children", func(tx *gorm.DB) error {
					if err := tx.Create(&effect{Name: "row"}).Error; err != nil || !orphan {
						return err
					}
					return tx.Exec("INSERT INTO children (parent) VALUES (4711)").Error
				}))
				left := false
				err := core.CallDo(ctx, "ship", func(context.Context, core.DerivedKey) error { left = true; return nil }, core.Dedup(time.Hour))
				require.Equal(t, orphan, err != nil)
				require.Equal(t, orphan, !left)
				if orphan {
					require.ErrorIs(t, err, core.ErrAborted)
					require.ErrorIs(t, core.Checkpoint(ctx), core.ErrSegmentLost)
				}
				return status
			}
		}
		rows := 0
		for _, behindCall := range []bool{false, true} {
			for status, want := range map[int]int{http.StatusCreated: http.StatusInternalServerError, http.StatusTeapot: http.StatusTeapot} {
				key := http.StatusText(status)[:3]
				if behindCall {
					key += "behind"
				}
				w := a.answering(key, handle(behindCall, true, status))
				require.Equal(t, want, w.Code, w.Body)
				require.Equal(t, rows, countEffects(t, db))
				recorded := want == http.StatusTeapot && !behindCall
				require.Equal(t, recorded, w.Header().Get("Idempotency-Result") == "created")
				w = a.answering(key, handle(behindCall, false, http.StatusCreated))
				if recorded {
					require.Equal(t, "reused", w.Header().Get("Idempotency-Result"))
				} else {
					require.Equal(t, http.StatusCreated, w.Code, w.Body)
					rows++
				}
				require.Equal(t, rows, countEffects(t, db))
			}
		}
	})
}

// The same where the error says nothing about the command: a refusal of the handler is not recorded.
//
// CONTRACT
func TestErrorAtTheCommitOfACallOfWhichNoCommandIsToBlame(t *testing.T) {
	onPostgres(t, func(t *testing.T, db *gorm.DB) {
		execute(t, db, failing)
		a := newStepApp(t, newStore(t, db))
		for state, want := range map[string]int{"23514": http.StatusTeapot, "P0001": http.StatusTeapot, "42501": http.StatusServiceUnavailable,
			"40001": http.StatusServiceUnavailable, "53100": http.StatusServiceUnavailable} {
			execute(t, db, "DROP TRIGGER IF EXISTS refuse ON effects", "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON effects "+
				"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail('"+state+"')")
			w := a.answering(state, func(ctx context.Context) int {
				require.NoError(t, reserve(ctx, nil))
				require.Error(t, callProvider(ctx))
				return http.StatusTeapot
			})
			require.Equal(t, want, w.Code, "%s: %s", state, w.Body)
			require.Equal(t, want == http.StatusTeapot, w.Header().Get("Idempotency-Result") == "created")
			require.Zero(t, countEffects(t, db))
			w = a.answering(state, func(context.Context) int { return http.StatusCreated })
			require.Equal(t, want == http.StatusTeapot, w.Header().Get("Idempotency-Result") == "reused")
		}
	})
}

// Two handlers that lock rows in different order: the server ends one of them. It is told so, nothing of it stays, and its
// next attempt succeeds; the result of a call before it is kept.
//
// CONTRACT
func TestHandlersThatLockInDifferentOrder(t *testing.T) {
	onPostgres(t, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.Create(&[]effect{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}).Error)
		a := newStepApp(t, newStore(t, db))
		for _, behindCall := range []bool{false, true} {
			var meet sync.WaitGroup
			meet.Add(2)
			calls := [2]int{}
			run := func(i int, wait func()) *httptest.ResponseRecorder {
				lock := func(id int) func(tx *gorm.DB) error {
					return func(tx *gorm.DB) error {
						return tx.Exec("UPDATE effects SET name = name || ? WHERE id = ?", "x", id).Error
					}
				}
				return a.as(fmt.Sprintf("order-%d-%t", i, behindCall), func(ctx context.Context) error {
					if behindCall {
						if err := callProvider(ctx, &calls[i]); err != nil {
							return err
						}
					}
					if err := gormstore.StepDo(ctx, "first", lock(1+i)); err != nil {
						return err
					}
					wait()
					return gormstore.StepDo(ctx, "second", lock(2-i))
				})
			}
			var answers [2]*httptest.ResponseRecorder
			var both sync.WaitGroup
			for i := range 2 {
				both.Go(func() { answers[i] = run(i, func() { meet.Done(); meet.Wait() }) })
			}
			both.Wait()
			lost := 0
			for i, w := range answers {
				if w.Code == http.StatusCreated {
					continue
				}
				lost++
				if behindCall {
					require.Equal(t, http.StatusInternalServerError, w.Code)
					require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
				} else {
					require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
					require.Contains(t, w.Body.String(), string(core.CodeRolledBack))
				}
				require.NotEmpty(t, w.Header().Get("Retry-After"))
				require.Equal(t, http.StatusCreated, run(i, func() {}).Code)
			}
			require.Equal(t, 1, lost)
			if behindCall {
				require.Equal(t, [2]int{1, 1}, calls)
			}
		}
		var names []string
		require.NoError(t, db.Model(&effect{}).Order("id").Pluck("name", &names).Error)
		require.Equal(t, []string{"axxxx", "bxxxx"}, names, "each of the four has written each row once")
	})
}

// Forty handlers on a pool of eight, each of which needs a second connection while it holds the first: they come to an end,
// also behind their calls.
//
// CONTRACT X-15, F-7
func TestFortyHandlersOnAPoolOfEight(t *testing.T) {
	url := migratedURL(t)
	direct := openPostgres(t, url, 2)
	db := openPostgres(t, url, 8)
	a := newStepApp(t, newStore(t, db))
	second := func(ctx context.Context) error { // with the first one in its hands
		var one int
		return db.WithContext(ctx).Raw("SELECT 1").Scan(&one).Error
	}
	var calls atomic.Int64
	var all sync.WaitGroup
	for n := range 40 {
		all.Go(func() {
			eventually(t, "an answer", func() bool {
				w := a.as(fmt.Sprint("pool-", n), func(ctx context.Context) error {
					err := reserve(ctx, func(tx *gorm.DB) error { return second(ctx) })
					if err == nil {
						err = core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error { calls.Add(1); return nil }, core.Dedup(time.Hour))
					}
					if err == nil {
						err = gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error {
							return errors.Join(tx.Create(&effect{Name: "booked"}).Error, second(ctx))
						})
					}
					return err
				})
				return w.Code == http.StatusCreated
			})
		})
	}
	all.Wait()
	require.Equal(t, 80, countEffects(t, direct))
	require.EqualValues(t, 40, calls.Load())
}

// A handler that computes between its steps for longer than its lease, while repeats and Run of another instance come: its
// open segment holds the key, and nobody else runs.
//
// CONTRACT
func TestHandlerThatComputesForLongerThanItsLease(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		if d.name == "postgres serializable" { // there this test's own write of the lease would cost the attempt its commit
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			db := d.fresh(t)(t)
			st := newStore(t, db)
			a := newStepApp(t, st)
			resumed := make(chan struct{}, 100)
			other := try(core.New(core.Config{
				Store: st, Policy: core.Policy{Recovery: core.Resume}, SweepEvery: 10 * time.Millisecond,
				Resume: map[string]core.Resumer{"POST /v1/refunds": func(context.Context, core.Record) (*core.Answer, error) {
					resumed <- struct{}{}
					return nil, errors.New("nobody else runs")
				}},
			})).ok(t)
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = other.Run(ctx) })
			defer running.Wait()
			defer stop()
			runs := 0
			handle := func(ctx context.Context) error {
				runs++
				if err := errors.Join(callProvider(ctx), reserve(ctx, nil)); err != nil {
					return err
				}
				if d.shared {
					advance(t, db, store.DefaultLease) // the lease in the record is over, and the segment is open
				}
				for range 20 { // it computes
					w := serve(t, other, "k-1", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }))
					require.Equal(t, http.StatusConflict, w.Code)
					require.Contains(t, w.Body.String(), string(core.CodeInFlight))
				}
				return bookStep(ctx)
			}
			require.Equal(t, http.StatusCreated, a.post(handle).Code)
			require.Equal(t, 1, runs)
			require.Empty(t, resumed)
			require.Equal(t, 2, countEffects(t, db))
		})
	}
}
