package gormstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
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

// cuttable is a store whose connections go through a proxy, beside a database that is reached without it.
type cuttable struct {
	*proxy
	store *gormstore.Store
	pool  *sql.DB // the store's
	db    *gorm.DB
}

func newCuttable(t *testing.T, way way, options ...gormstore.Option) *cuttable {
	t.Helper()
	url := migratedURL(t)
	db := openPostgres(t, url, 2)
	p := newProxy(t, url)
	through := way.of(t, openPostgres(t, p.url, 4))
	pool := try(through.DB()).ok(t)
	c := &cuttable{p, newStore(t, through, options...), pool, db}
	warm, _ := beginRow(t, c.store, command(store.Rollback))
	require.NoError(t, warm.Rollback())
	return c
}

// begins sets what cuts the next command off. The pool forgets its connections: one that was cut before would fail at the begin.
func (c *cuttable) begins(cut func(toServer bool, chunk []byte) (int, bool)) {
	c.set(nil)
	c.pool.SetMaxIdleConns(-1)
	c.pool.SetMaxIdleConns(4)
	c.set(cut)
}

// sendsCommit reports whether a chunk holds the COMMIT of an attempt that records paid: the answer goes together with it,
// or before it in a message of its own.
func sendsCommit(way way) func(chunk []byte) bool {
	if way == overPgx {
		return func(chunk []byte) bool { return bytes.Contains(chunk, paid().Answer.Body) }
	}
	return isCommitted
}

// isCommitted reports whether a chunk holds the answer to a COMMIT.
func isCommitted(chunk []byte) bool { return bytes.Contains(chunk, []byte("COMMIT\x00")) }

// CONTRACT X-4, F-2
func TestCommitIsCutOff(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		cut := newCuttable(t, way)
		direct := newStore(t, cut.db) // the pool of the other one may still hold a connection that was cut
		effects := 0
		isCommit := sendsCommit(way)
		committed := func(t *testing.T, c store.Claim) {
			t.Helper()
			effects++
			requireCompleted(t, direct, c, paid())
		}

		t.Run("before it reaches the server", func(t *testing.T) {
			c := command(store.Rollback)
			cut.begins(func(toServer bool, chunk []byte) (int, bool) {
				if toServer && isCommit(chunk) {
					return 0, true
				}
				return len(chunk), false
			})
			require.ErrorIs(t, <-commit(t, cut.store, c, 30*time.Second), store.ErrRetryable)
			requireFree(t, cut.store, c)
		})

		t.Run("when it was sent", func(t *testing.T) {
			c := command(store.Rollback)
			var once atomic.Bool
			cut.begins(func(toServer bool, chunk []byte) (int, bool) {
				return len(chunk), toServer && isCommit(chunk) && once.CompareAndSwap(false, true)
			})
			err := <-commit(t, cut.store, c, 30*time.Second)
			if errors.Is(err, store.ErrRetryable) { // the server has noticed the cut first: nothing was committed, as the error says
				requireNothing(t, direct, c)
				return
			}
			require.NoError(t, err, "it is read back")
			committed(t, c)
		})

		t.Run("before its answer arrives", func(t *testing.T) {
			c := command(store.Rollback)
			answer, _ := once(func(toServer bool, chunk []byte) bool { return !toServer && isCommitted(chunk) })
			cut.begins(answer)
			require.NoError(t, <-commit(t, cut.store, c, 30*time.Second), "it is read back")
			committed(t, c)
		})

		t.Run("and the server cannot be reached any more", func(t *testing.T) {
			c := command(store.Rollback)
			var gone atomic.Bool
			cut.begins(func(toServer bool, chunk []byte) (int, bool) {
				if gone.Load() {
					return 0, true
				}
				if toServer && isCommit(chunk) {
					gone.Store(true)
					return len(chunk), true
				}
				return len(chunk), false
			})
			outcome, giveUp := commitUntil(t, cut.store, c)
			eventually(t, "the server is gone", gone.Load)
			time.AfterFunc(300*time.Millisecond, giveUp)
			require.ErrorIs(t, <-outcome, store.ErrUnconfirmed)
			cut.set(nil)
			if _, err := direct.Find(t.Context(), c.ID, store.Viewer{All: true}); errors.Is(err, store.ErrNotFound) {
				return // the server has noticed the cut first
			}
			committed(t, c)
		})

		t.Run("and the network swallows its answer", func(t *testing.T) {
			c := command(store.Rollback)
			var commits atomic.Int32
			release := make(chan struct{})
			cut.begins(func(toServer bool, chunk []byte) (int, bool) {
				if !toServer && isCommitted(chunk) {
					commits.Add(1)
					<-release
				}
				return len(chunk), false
			})
			outcome, giveUp := commitUntil(t, cut.store, c)
			eventually(t, "COMMIT is answered", func() bool { return commits.Load() > 0 })
			begun := time.Now()
			time.AfterFunc(300*time.Millisecond, giveUp)
			require.ErrorIs(t, <-outcome, store.ErrUnconfirmed)
			require.Less(t, time.Since(begun), 10*time.Second, "Commit waits as long as its context allows")
			require.EqualValues(t, 1, commits.Load())
			close(release)
			cut.set(nil)
			committed(t, c)
		})

		// A pooler or a failing server may speak up after the COMMIT.
		for _, state := range []string{"08006", "57P01", "58000", "XX000", "53300"} {
			t.Run("and an error "+state+" comes in the place of its answer", func(t *testing.T) {
				c := command(store.Rollback)
				var once atomic.Bool // reading back is a transaction, too
				cut.begins(func(toServer bool, chunk []byte) (int, bool) {
					if toServer || !isCommitted(chunk) || !once.CompareAndSwap(false, true) {
						return len(chunk), false
					}
					return copy(chunk[:cap(chunk)], errorResponse(state)), true
				})
				require.NoError(t, <-commit(t, cut.store, c, 30*time.Second), "it is read back")
				committed(t, c)
			})
		}

		cut.set(nil)
		require.Equal(t, effects, countEffects(t, cut.db))
	})
}

// errorResponse is the message of that name of PostgreSQL's protocol.
func errorResponse(state string) []byte {
	fields := "SFATAL\x00C" + state + "\x00Mon purpose\x00\x00"
	return append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(fields)+4)), fields...)
}

// atAnyByte runs fn again and again, each time with connections that break after more bytes, in the one and then in the
// other direction, until none breaks. fn calls mend when it has seen enough.
func (c *cuttable) atAnyByte(t *testing.T, fn func(at string, mend func())) {
	t.Helper()
	const step = 41 // no divisor of any message's length
	runs := 0
	for _, toServer := range []bool{true, false} {
		for limit, reached := 0, true; reached; limit += step {
			var passed, cuts atomic.Int64
			c.set(func(direction bool, chunk []byte) (int, bool) {
				if direction != toServer || cuts.Load() > 0 {
					return len(chunk), false
				}
				before := passed.Add(int64(len(chunk))) - int64(len(chunk))
				if before+int64(len(chunk)) <= int64(limit) {
					return len(chunk), false
				}
				cuts.Add(1)
				return max(0, limit-int(before)), true
			})
			fn(fmt.Sprintf("cut after %d bytes (to the server: %v)", limit, toServer), func() {
				reached = cuts.Load() > 0
				c.set(nil)
			})
			runs++
		}
	}
	require.Greater(t, runs, 10)
}

// An attempt whose connection breaks, and then a client that repeats until it is answered: one effect, always.
//
// CONTRACT F-2, X-4, M-6
func TestRollbackIsCutAtAnyByte(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		cut := newCuttable(t, way)
		effects := 0
		cut.atAnyByte(t, func(at string, mend func()) {
			c := command(store.Rollback)
			first := cut.attempt(t, c)
			mend()
			cut.repeat(t, c)
			rec, err := cut.store.Find(t.Context(), c.ID, store.Viewer{All: true})
			require.NoError(t, err, at)
			switch {
			case first == nil:
				require.Equal(t, c.Owner, rec.Owner, at)
			case !errors.Is(first, store.ErrUnconfirmed):
				require.NotEqual(t, c.Owner, rec.Owner, "%s: %v", at, first)
			}
			effects++
			require.Equal(t, effects, countEffects(t, cut.db), at)
		})
	})
}

// An attempt has called a provider, and nobody knows the outcome. A repeat takes over, and gives up before its handler runs,
// because the answer to that is lost. So is the answer to its release, so that it is sent again. The first attempt still counts: its steps do not run again,
// and a call that must not be repeated leaves the operation unknown.
//
// CONTRACT X-3, F-1
func TestTakeoverIsReleasedTwice(t *testing.T) {
	t.Parallel()
	cut := newCuttable(t, overPgx)
	m := newModule(t, cut.store, core.Policy{Recovery: core.Resume, MaxAttempts: 10})
	calls, outcome := 0, errors.New("timeout")
	send := func() *httptest.ResponseRecorder {
		return serve(t, m, "k-1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := gormstore.StepDo(r.Context(), "book", func(tx *gorm.DB) error { return tx.Create(&effect{Name: "booked"}).Error })
			if err == nil {
				err = core.CallDo(r.Context(), "charge", func(context.Context, core.DerivedKey) error { calls++; return outcome })
			}
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}))
	}
	require.Equal(t, http.StatusInternalServerError, send().Code)
	outcome = nil

	var stage atomic.Int32
	var takesOver atomic.Bool
	running, stop := context.WithCancel(within(t, 30*time.Second))
	takeover, executed := []byte("r.attempts + 1"), []byte("UPDATE 1\x00")
	releases := []byte("greatest(r.attempts - 1, 1)")
	cut.begins(func(toServer bool, chunk []byte) (pass int, ends bool) {
		pass = len(chunk)
		switch at := stage.Load(); {
		case at == 0 && toServer && bytes.Contains(chunk, takeover):
			takesOver.Store(true)
		case at == 0 && takesOver.Load() && !toServer && bytes.Contains(chunk, executed), at == 2 && !toServer && isCommitted(chunk):
			stage.Add(1)
			return 0, true
		case (at == 1 || at == 3) && toServer && bytes.Contains(chunk, releases):
			stage.Add(1)
		case at == 4 && !toServer && isCommitted(chunk):
			stop()
		}
		return pass, false
	})
	require.Equal(t, http.StatusServiceUnavailable, send().Code)
	committed := func() bool { return stage.Load() == 3 }
	require.Eventually(t, committed, 30*time.Second, time.Millisecond, "the release has committed, and nobody knows")
	for stage.Load() < 4 && running.Err() == nil { // it releases again
		once, cancel := context.WithTimeout(running, time.Second)
		require.NoError(t, m.Run(once))
		cancel()
	}
	require.Equal(t, int32(4), stage.Load())

	require.Contains(t, send().Body.String(), "outcome_unknown")
	require.Equal(t, 1, calls)
	require.Equal(t, 1, countEffects(t, cut.db))
}

// The same without a transaction. What core does about an error is here: a claim is released, a completion repeated.
//
// CONTRACT F-1, F-2, M-6
func TestParkIsCutAtAnyByte(t *testing.T) {
	t.Parallel()
	cut := newCuttable(t, overPgx)
	cut.atAnyByte(t, func(at string, mend func()) {
		ctx := within(t, 30*time.Second)
		untilItWorks := func(try func() error) {
			for try() != nil {
				require.NoError(t, ctx.Err(), at)
			}
		}
		ran := 0
		run := func(c store.Claim) (done bool) {
			claimed, err := cut.store.Claim(ctx, c)
			if err != nil {
				owner := store.Ticket{ID: c.ID, Owner: c.Owner}
				untilItWorks(func() error { return cut.store.Release(ctx, []store.Ticket{owner}) })
				return false
			}
			if claimed.Won {
				ran++
				untilItWorks(func() error {
					return cut.store.End(ctx, claimed.Record.Ticket, store.Ending{State: store.Completed, Answer: paid()})
				})
			}
			return claimed.Won || claimed.Record.State() == store.Completed
		}
		c := command(store.Park)
		run(c)
		mend()
		for !run(again(c)) {
			require.NoError(t, ctx.Err(), at)
		}
		require.Equal(t, 1, ran, at)
		rec, err := cut.store.Find(ctx, c.ID, store.Viewer{All: true})
		require.NoError(t, err, at)
		require.Equal(t, store.Completed, rec.State(), at)
	})
}

// repeat is a client that repeats until it is answered.
func (c *cuttable) repeat(t *testing.T, claim store.Claim) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	for {
		require.NoError(t, ctx.Err(), "the client gets no answer")
		tx, claimed, err := c.store.Begin(ctx, again(claim))
		switch {
		case err != nil || claimed.Busy: // an old connection is found broken; the old backend is not gone yet
		case !claimed.Won:
			require.Equal(t, store.Completed, claimed.Record.State())
			return
		default:
			require.NoError(t, addEffect(tx.Bind(ctx, nil)))
			require.NoError(t, seal(ctx, tx, paid(), false))
		}
	}
}

// attempt is a whole attempt with one row.
func (c *cuttable) attempt(t *testing.T, claim store.Claim) error {
	ctx := within(t, 30*time.Second)
	tx, claimed, err := c.store.Begin(ctx, claim)
	if err != nil {
		return err
	}
	if !claimed.Won {
		return fmt.Errorf("not won: %+v", claimed)
	}
	if err := addEffect(tx.Bind(ctx, nil)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return seal(ctx, tx, paid(), false)
}
