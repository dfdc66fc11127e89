package gormstore_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// stepApp is a Resume module on a store, and its handlers.
type stepApp struct {
	t      *testing.T
	module *core.Module
}

func newStepApp(t *testing.T, store *gormstore.Store) *stepApp {
	t.Helper()
	policy := core.Policy{Recovery: core.Resume, Deadline: 20 * time.Second}
	module := try(core.New(core.Config{Store: store, Policy: policy, ClaimTimeout: 5 * time.Second})).ok(t)
	return &stepApp{t, module}
}

// post sends a command to a handler that answers 201, or 500 after an error.
func (a *stepApp) post(handle func(ctx context.Context) error) *httptest.ResponseRecorder {
	a.t.Helper()
	return a.as("k-1", handle)
}

// as is post with another key.
func (a *stepApp) as(key string, handle func(ctx context.Context) error) *httptest.ResponseRecorder {
	a.t.Helper()
	return serve(a.t, a.module, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := handle(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
}

// reserve is a database step with one row.
func reserve(ctx context.Context, before func(tx *gorm.DB) error) error {
	_, err := gormstore.Step(ctx, "reserve", func(tx *gorm.DB) (uint, error) {
		row := effect{Name: "reserved"}
		err := tx.Create(&row).Error
		if before != nil && err == nil {
			err = before(tx)
		}
		return row.ID, err
	})
	return err
}

// CONTRACT X-3
func TestStatementsOfResume(t *testing.T) {
	url := migratedURL(t)
	read := pgtest.Statements(t, url)
	a := newStepApp(t, newStore(t, openPostgres(t, url, 4)))
	handle := func(ctx context.Context) error { return reserveCallBook(ctx) }
	a.as("warm", handle)
	read() // the store asks once whether the server looks after clients that went away

	require.Equal(t, http.StatusCreated, a.post(handle).Code)
	requireStatements(t, read(), "BEGIN", lockFirst, lookFirst, // the claim
		`INSERT INTO "effects"`,                     // the first database step
		asBegun, insertRecord, "WITH put", "COMMIT", // the record, the step and the start of the call
		"BEGIN", "SELECT pg_catalog.pg_backend_pid()", "SELECT 1 FROM",
		`INSERT INTO "effects"`,
		asBegun, "WITH one AS (UPDATE", "WITH put", "COMMIT") // the answer, the result of the call and the second step
	require.Equal(t, "reused", a.post(handle).Header().Get("Idempotency-Result"))
	requireStatements(t, read(), lookFirst)
}

// When a database step was recorded is kept with it, by the database's clock.
//
// CONTRACT T-1
func TestTimesOfAStep(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		store := newStore(t, db)
		a := newStepApp(t, store)
		clock := func(tx *gorm.DB) (now time.Time, err error) {
			if db.Name() == "sqlite" {
				var millis int64
				err = tx.Raw("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)").Scan(&millis).Error
				return time.UnixMilli(millis), err
			}
			err = tx.Raw("SELECT clock_timestamp()").Scan(&now).Error
			return now, err
		}
		before := try(clock(db)).ok(t)
		var within time.Time
		var operation core.ID
		require.Equal(t, http.StatusCreated, a.post(func(ctx context.Context) error {
			operation, _ = core.Operation(ctx)
			return reserve(ctx, func(tx *gorm.DB) (err error) {
				within, err = clock(tx)
				return err
			})
		}).Code)
		after := try(clock(db)).ok(t)
		steps := try(store.Steps(t.Context(), operation)).ok(t)
		require.Len(t, steps, 1)
		moments := []time.Time{before, within, steps[0].StartedAt, steps[0].FinishedAt, after}
		require.True(t, slices.IsSortedFunc(moments, time.Time.Compare), "%v", moments)
	})
}

// callProvider makes a call that the provider deduplicates, and counts it.
func callProvider(ctx context.Context, calls ...*int) error {
	return core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error {
		for _, n := range calls {
			*n++
		}
		return nil
	}, core.Dedup(time.Hour))
}

// bookStep is another database step with one row.
func bookStep(ctx context.Context) error {
	return gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error { return tx.Create(&effect{Name: "booked"}).Error })
}

// reserveCallBook is a handler of two database steps with a call between them.
func reserveCallBook(ctx context.Context, calls ...*int) error {
	if err := reserve(ctx, nil); err != nil {
		return err
	}
	if err := callProvider(ctx, calls...); err != nil {
		return err
	}
	return bookStep(ctx)
}

// The operation has ended behind a call, and its handler goes on: the rows of its next step never appear.
//
// CONTRACT X-2
func TestStepAfterItsOperationHasEnded(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		a := newStepApp(t, st)
		for name, end := range map[string]store.Ending{
			"answered": {State: store.Completed, Answer: paid()},
			"freed":    {State: store.Free},
		} {
			w := a.as(name, func(ctx context.Context) error {
				require.NoError(t, callProvider(ctx))
				id, _ := core.Operation(ctx)
				rec := try(st.Find(ctx, id, store.Viewer{All: true})).ok(t)
				over := func() { require.NoError(t, st.End(context.WithoutCancel(ctx), rec.Ticket, end), name) }
				if db.Name() == "sqlite" {
					over() // its one writer is the step's, from the beginning
					require.ErrorIs(t, reserve(ctx, nil), core.ErrStale, name)
					return nil
				}
				return reserve(ctx, func(*gorm.DB) error { over(); return nil }) // which the last statement notices
			})
			require.NotEqual(t, "created", w.Header().Get("Idempotency-Result"), name)
			require.Zero(t, countEffects(t, db), name)
			require.Zero(t, query[int64](t, db, "SELECT count(*) FROM idempotency_step WHERE name = 'reserve'"), name)
		}
	})
}

// While a call runs no transaction is open, in a repeated call too, although the handler has read before it.
//
// CONTRACT
func TestNothingIsOpenInACall(t *testing.T) {
	t.Parallel()
	onDatabases(t, bothKinds, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		a := newStepApp(t, newStore(t, db))
		count := func(ctx context.Context) error {
			var n int64
			return gormstore.Tx(ctx).Model(&effect{}).Count(&n).Error
		}
		fail, calls := errors.New("no answer"), 0
		for _, want := range []int{http.StatusInternalServerError, http.StatusCreated} {
			require.Equal(t, want, a.post(func(ctx context.Context) error {
				require.NoError(t, count(ctx))
				err := core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error {
					calls++
					require.ErrorContains(t, count(ctx), "no transaction is open while a core.Call runs")
					return fail
				}, core.Dedup(time.Hour))
				require.NoError(t, count(ctx))
				return err
			}).Code)
			fail = nil
		}
		require.Equal(t, 2, calls)
	})
}

// CONTRACT
func TestFailedStatementInAStep(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		a := newStepApp(t, newStore(t, db))
		require.Equal(t, http.StatusServiceUnavailable, a.post(func(ctx context.Context) error {
			err := reserve(ctx, func(tx *gorm.DB) error {
				_ = tx.Exec("INSERT INTO no_such_table VALUES (1)").Error // swallowed
				if tx.Name() == "sqlite" {
					return errors.New("SQLite goes on after a failed statement; the handler does not")
				}
				return nil
			})
			if db.Name() == "postgres" {
				require.ErrorIs(t, err, core.ErrRetryable, "a missing table is nobody's refusal")
			}
			return err
		}).Code)
		require.Zero(t, countEffects(t, db))
		require.Equal(t, http.StatusCreated, a.post(func(ctx context.Context) error { return reserve(ctx, nil) }).Code)
		require.Equal(t, 1, countEffects(t, db))
	})
}

// CONTRACT X-6
func TestTransactionOfAStep(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		a := newStepApp(t, newStore(t, db))
		w := a.post(func(ctx context.Context) error {
			var n int64
			require.NoError(t, gormstore.Tx(ctx).Model(&effect{}).Count(&n).Error, "between steps it reads")
			require.ErrorIs(t, gormstore.Tx(ctx).Create(&effect{}).Error, gormstore.ErrOutsideTransaction)
			handle, ok := gormstore.SQLTx(ctx)
			require.True(t, ok)
			require.ErrorIs(t, err2(handle.ExecContext(ctx, "DELETE FROM effects")), gormstore.ErrOutsideTransaction)
			var kept *gorm.DB
			require.NoError(t, gormstore.StepDo(ctx, "keep", func(tx *gorm.DB) error { kept = tx; return nil }))
			require.ErrorContains(t, kept.Create(&effect{}).Error, "the step is over")
			return reserve(ctx, func(tx *gorm.DB) error {
				inside := tx.Statement.Context
				require.ErrorIs(t, db.WithContext(inside).Create(&effect{}).Error, gormstore.ErrOutsideTransaction)
				require.Error(t, tx.Commit().Error)
				operation, ok := core.Operation(inside)
				require.True(t, ok)
				require.NotZero(t, operation)
				return gormstore.Tx(inside).Create(&effect{Name: "a repository's"}).Error
			})
		})
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
		require.Equal(t, 2, countEffects(t, db))
	})
}

// CONTRACT X-1
func TestDeadlineEndsAStep(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		module := try(core.New(core.Config{
			Store: st, Policy: core.Policy{Recovery: core.Resume, Deadline: time.Second}, ClaimTimeout: 5 * time.Second,
		})).ok(t)
		a := &stepApp{t, module}
		for name, derive := range map[string]func(context.Context) context.Context{
			"the attempt's context":        func(ctx context.Context) context.Context { return ctx },
			"one without its cancellation": context.WithoutCancel,
		} {
			t.Run(name, func(t *testing.T) {
				key := strings.ReplaceAll(name, " ", "-") // the server may still be at the other one's statement
				w := a.as(key, func(ctx context.Context) error {
					return reserve(derive(ctx), func(tx *gorm.DB) error {
						_ = tx.Exec(slow(db)).Error // swallowed
						return nil
					})
				})
				require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body) // else the statement ends, and the step commits
				require.Zero(t, countEffects(t, db))
			})
		}
		w := newStepApp(t, st).post(func(ctx context.Context) error { return reserve(ctx, nil) })
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
	})
}

// SQLite ends a transaction by itself where a statement is interrupted: what comes after would be committed alone.
//
// CONTRACT
func TestInterruptedStatementInAStepOnSQLite(t *testing.T) {
	db, within := interruptible(t)
	a := newStepApp(t, newStore(t, db))
	require.Equal(t, http.StatusServiceUnavailable, a.post(func(ctx context.Context) error {
		err := reserve(ctx, func(tx *gorm.DB) error {
			require.ErrorIs(t, tx.WithContext(within(tx.Statement.Context)).Exec(endless).Error, context.Canceled)
			require.Error(t, tx.Create(&effect{Name: "alone"}).Error)
			return nil
		})
		require.ErrorIs(t, err, core.ErrAborted)
		return err
	}).Code)
	require.Zero(t, countEffects(t, db))
	require.Equal(t, http.StatusCreated, a.post(func(ctx context.Context) error { return reserve(ctx, nil) }).Code)
	require.Equal(t, 1, countEffects(t, db))
}

// CONTRACT X-4, M-2
func TestTakeoverWhileAStepWaitsForItsStandby(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.abandon() // the standby is lost when the attempt has begun
	a, other := newStepApp(t, r.store()), newStepApp(t, r.store())
	var first *httptest.ResponseRecorder
	var wg sync.WaitGroup
	wg.Go(func() {
		first = a.post(func(ctx context.Context) error {
			return reserve(ctx, func(*gorm.DB) error {
				advance(t, r.admin, store.DefaultLease)
				r.demand()
				return nil
			})
		})
	})
	r.waiting()
	for range 3 {
		w := other.post(func(context.Context) error { return errors.New("it ran") })
		require.Equal(t, http.StatusConflict, w.Code, w.Body)
		require.Contains(t, w.Body.String(), string(core.CodeInFlight), "it does not wait for the row: else it gets store_unavailable")
	}
	r.abandon()
	wg.Wait()
	require.Equal(t, http.StatusCreated, first.Code, first.Body)
	require.Equal(t, 1, countEffects(t, r.admin))
}

// CONTRACT X-4
func TestStepsCommitIsCutOff(t *testing.T) {
	t.Parallel()
	for name, arrives := range map[string]bool{"before it reaches the server": false, "when it is answered": true} {
		t.Run(name, func(t *testing.T) {
			cut := newCuttable(t, overPgx)
			a := newStepApp(t, cut.store)
			atLast, done := once(func(toServer bool, chunk []byte) bool {
				if arrives {
					return !toServer && isCommitted(chunk)
				}
				return toServer && bytes.Contains(chunk, []byte("the last step"))
			})
			w := a.post(func(ctx context.Context) error {
				cut.set(atLast)
				return gormstore.StepDo(ctx, "the last step", stock)
			})
			if arrives {
				require.Equal(t, http.StatusCreated, w.Code, "it is read back")
			} else {
				require.Equal(t, http.StatusServiceUnavailable, w.Code, "certainly not committed")
				require.Zero(t, countEffects(t, cut.db))
				w = a.post(func(ctx context.Context) error { return reserve(ctx, nil) })
				require.Equal(t, http.StatusCreated, w.Code, w.Body)
			}
			require.True(t, done.Load())
			require.Equal(t, 1, countEffects(t, cut.db))
		})
	}
}
