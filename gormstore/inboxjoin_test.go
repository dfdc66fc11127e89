package gormstore_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/internal/pgtest"
)

// webhook is a guarded route that hands its messages to an inbox.
type webhook struct {
	t      *testing.T
	module *core.Module
}

func newWebhook(t *testing.T, store *gormstore.Store, r core.Recovery) webhook {
	t.Helper()
	return webhook{t, newModule(t, store, core.Policy{Recovery: r})}
}

// call is a request of its own key.
func (w webhook) call(key string, h func(ctx context.Context) int) *httptest.ResponseRecorder {
	w.t.Helper()
	return serve(w.t, w.module, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(h(r.Context()))
	}))
}

// answers is a request whose handler answers with a status, which the client gets.
func (w webhook) answers(status int, key string, h func(ctx context.Context)) {
	w.t.Helper()
	require.Equal(w.t, status, w.call(key, func(ctx context.Context) int { h(ctx); return status }).Code)
}

// The message's rows and marker are the attempt's: they commit with its answer, and are undone with it.
//
// CONTRACT Q-3
func TestInboxJoinsAnAttempt(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		store := newStore(t, db)
		hook, box, m := newWebhook(t, store, core.Rollback), newInbox(t, db, stockInbox), message()
		for key, status := range map[string]int{"a": 500, "b": 402} {
			hook.answers(status, key, func(ctx context.Context) { require.NoError(t, box.Process(ctx, m, stock)) })
			require.Zero(t, countEffects(t, db), "undone with the attempt: %d", status)
		}
		hook.answers(200, "c", func(ctx context.Context) { require.NoError(t, box.Process(ctx, m, stock)) })
		require.Equal(t, 1, countEffects(t, db))

		// A duplicate under another key is skipped, and the route answers as before.
		hook.answers(200, "d", func(ctx context.Context) {
			require.NoError(t, box.Process(ctx, m, never(t)))
			require.ErrorIs(t, box.Process(ctx, reused(m), never(t)), inbox.ErrReused)
		})
		requireProcessed(t, box, m)
		require.Equal(t, 1, countEffects(t, db))
		requireIdle(t, db)
	})
}

// A message that is refused inside an attempt as too old stays refused, whatever a later release keeps.
//
// CONTRACT Q-3
func TestInboxNotesWhatAnAttemptRefuses(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		raised := stockInbox
		raised.Keep = 365 * 24 * time.Hour
		hook, short, long := newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, stockInbox), newInbox(t, db, raised)
		m := message()
		m.Published = time.Now().Add(-inbox.DefaultKeep - time.Hour)
		hook.answers(200, "a", func(ctx context.Context) {
			require.ErrorIs(t, short.Process(ctx, m, never(t)), inbox.ErrTooOld)
		})
		require.ErrorIs(t, long.Process(t.Context(), m, never(t)), inbox.ErrTooOld)
	})
}

// A message that fails leaves nothing in an attempt that goes on all the same.
//
// CONTRACT Q-3
func TestInboxFailsInAnAttempt(t *testing.T) {
	errNoStock := errors.New("no stock")
	failing := func(tx *gorm.DB) error {
		_ = stock(tx)
		_ = tx.Exec("SELECT 1 FROM nowhere").Error // swallowed; PostgreSQL has aborted the transaction
		return nil
	}
	onEvery(t, func(t *testing.T, d database, db *gorm.DB) {
		store := newStore(t, db)
		hook, box, m := newWebhook(t, store, core.Rollback), newInbox(t, db, stockInbox), message()
		hook.answers(202, "a", func(ctx context.Context) {
			require.ErrorIs(t, box.Process(ctx, m, func(tx *gorm.DB) error { return errors.Join(stock(tx), errNoStock) }),
				errNoStock)
			require.PanicsWithValue(t, "no stock", func() {
				_ = box.Process(ctx, m, func(tx *gorm.DB) error {
					_ = stock(tx)
					panic("no stock")
				})
			})
			if d.shared {
				require.ErrorIs(t, box.Process(ctx, m, failing), core.ErrAborted)
			}
			require.NoError(t, addEffect(ctx), "the attempt goes on")
		})
		require.Equal(t, 1, countEffects(t, db))
		requireUnprocessed(t, db, box, m)
	})
}

// A second delivery, in another attempt or in none, gets ErrBusy until the attempt has ended.
//
// CONTRACT Q-3
func TestInboxIsBusyInAnAttempt(t *testing.T) {
	db := parallelPostgres(t)
	hook, box, m := newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, stockInbox), message()
	hook.answers(200, "a", func(ctx context.Context) {
		require.NoError(t, box.Process(ctx, m, stock))
		require.ErrorIs(t, box.Process(patient(t), m, never(t)), inbox.ErrBusy)
		hook.answers(503, "b", func(ctx context.Context) {
			require.ErrorIs(t, box.Process(ctx, m, never(t)), inbox.ErrBusy)
		})
	})
	hook.answers(200, "b", func(ctx context.Context) {
		require.NoError(t, box.Process(ctx, m, never(t)))
	})
	require.Equal(t, 1, countEffects(t, db))
}

// Webhooks take one connection each: as many as there are slots all come through.
//
// CONTRACT Q-3
func TestWebhooksTakeOnePlaceEach(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		hooks := 1 // SQLite has one writer
		if db.Name() == "postgres" {
			hooks = 3
			db = openPostgres(t, pgtest.URL(t), 4)
			migrate(t, db)
		}
		store := newStore(t, db)
		hook, box := newWebhook(t, store, core.Rollback), newInbox(t, db, stockInbox)
		var inside sync.WaitGroup // each has its place by then
		inside.Add(hooks)
		for _, status := range atOnce(hooks, func(n int) int {
			return hook.call(string(rune('a'+n)), func(ctx context.Context) int {
				inside.Done()
				inside.Wait()
				if box.Process(ctx, message(), stock) != nil {
					return 500
				}
				return 200
			}).Code
		}) {
			require.Equal(t, 200, status)
		}
		require.Equal(t, hooks, countEffects(t, db))
	})
}

// CONTRACT
func TestInboxJoinsAStep(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		hook, box, m := newWebhook(t, newStore(t, db), core.Resume), newInbox(t, db, stockInbox), message()
		fail := errors.New("after the message")
		handler := func(ctx context.Context) int {
			require.ErrorIs(t, box.Process(ctx, m, never(t)), gormstore.ErrOutsideTransaction)
			if gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error {
				return errors.Join(box.Process(tx.Statement.Context, m, stock), fail)
			}) != nil {
				return 502
			}
			return 200
		}
		require.Equal(t, 502, hook.call("a", handler).Code)
		require.Zero(t, countEffects(t, db))
		fail = nil
		require.Equal(t, 200, hook.call("a", handler).Code)
		require.Equal(t, 1, countEffects(t, db))
		requireProcessed(t, box, m)
	})
}

// An inbox in the handler of another one.
//
// CONTRACT Q-3
func TestInboxJoinsAnother(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		cfg := stockInbox
		cfg.Group = "mail"
		stocks, mails, m, inner := newInbox(t, db, stockInbox), newInbox(t, db, cfg), message(), message()
		for _, fail := range []error{errors.New("later"), nil} {
			err := stocks.Process(t.Context(), m, func(tx *gorm.DB) error {
				outer, _ := core.Origin(tx.Statement.Context)
				require.NoError(t, mails.Process(tx.Statement.Context, inner, func(tx *gorm.DB) error {
					key, ok := core.Origin(tx.Statement.Context)
					require.True(t, ok)
					require.NotEqual(t, outer, key)
					return stock(tx)
				}))
				return errors.Join(stock(tx), fail)
			})
			require.ErrorIs(t, err, fail)
		}
		require.Equal(t, 2, countEffects(t, db))
		requireProcessed(t, mails, inner)
	})
}

// Where there is no transaction to join, a message is refused before anything is written, unless it is meant to stand
// alone.
//
// CONTRACT
func TestInboxInAnAttemptWithoutATransaction(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		hook, box, m := newWebhook(t, newStore(t, db), core.Park), newInbox(t, db, stockInbox), message()
		hook.answers(200, "a", func(ctx context.Context) {
			err := box.Process(ctx, m, never(t))
			require.ErrorIs(t, err, gormstore.ErrOutsideTransaction)
			require.ErrorContains(t, err, "core.Rollback")
			require.NoError(t, box.Process(gormstore.Outside(ctx), m, func(tx *gorm.DB) error {
				past := db.WithContext(tx.Statement.Context).Create(&effect{Name: "past"}).Error
				require.ErrorIs(t, past, gormstore.ErrOutsideTransaction, "what was said of the message is not said of its rows")
				return stock(tx)
			}))
		})
		require.Equal(t, 1, countEffects(t, db))
		requireProcessed(t, box, m)
	})
}

// A message beside the open segment of a Resume attempt does not wait for a place that its own attempt has. SQLite's one
// writer it cannot have, and is told so at once.
//
// CONTRACT
func TestInboxBesideASegment(t *testing.T) {
	t.Parallel()
	onDatabases(t, bothKinds, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db, least := open(t), map[string]int{"postgres": 2, "sqlite": 3}
		try(db.DB()).ok(t).SetMaxOpenConns(least[db.Name()])
		cfg := stockInbox
		cfg.Deadline = 2 * time.Second
		hook, box, m := newWebhook(t, newStore(t, db), core.Resume), newInbox(t, db, cfg), message()
		hook.answers(201, "a", func(ctx context.Context) {
			require.NoError(t, gormstore.StepDo(ctx, "rows", stock))
			if db.Name() == "sqlite" {
				require.ErrorContains(t, box.Process(gormstore.Outside(ctx), m, never(t)), "SQLite has one writer")
				require.NoError(t, core.Checkpoint(ctx))
			}
			require.NoError(t, box.Process(gormstore.Outside(ctx), m, stock))
		})
		require.Equal(t, 2, countEffects(t, db))
		requireProcessed(t, box, m)
	})
}

// Where every place is held by an attempt whose message waits for another one, nothing would go on until a deadline: the last
// one of them is told at once, and its place lets the others go on.
//
// CONTRACT
func TestMessagesBesideSegmentsThatHoldAllPlaces(t *testing.T) {
	t.Parallel()
	const places = 4
	db := newPostgres(t, places+1) // one is for renewals
	hook, box := newWebhook(t, newStore(t, db), core.Resume), newInbox(t, db, stockInbox)
	require.NoError(t, box.Validate(t.Context()))
	var sealed, others, inside sync.WaitGroup
	sealed.Add(1)
	others.Add(places - 1)
	inside.Add(places)
	var crowded atomic.Int32
	statuses := atOnce(places, func(n int) int {
		if n > 0 {
			sealed.Wait() // so that the first one is behind a seal: its next segment takes the place that others cannot take
		}
		return hook.call(string(rune('a'+n)), func(ctx context.Context) int {
			if n == 0 {
				require.NoError(t, gormstore.StepDo(ctx, "before", stock))
				require.NoError(t, core.Checkpoint(ctx))
				sealed.Done()
				others.Wait()
			} else {
				others.Done()
			}
			require.NoError(t, gormstore.StepDo(ctx, "rows", stock))
			inside.Done()
			inside.Wait()
			err := box.Process(gormstore.Outside(ctx), message(), stock)
			if errors.Is(err, store.ErrCrowded) {
				crowded.Add(1)
				return 500
			}
			require.NoError(t, err)
			return 201
		}).Code
	})
	require.Equal(t, int32(1), crowded.Load())
	slices.Sort(statuses)
	require.Equal(t, []int{201, 201, 201, 500}, statuses)
}

// CONTRACT Q-3
func TestInboxOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	other := freshSQLite(t)(t)
	elsewhere, m := newInbox(t, other, stockInbox), message()
	db := freshSQLite(t)(t)
	hook := newWebhook(t, newStore(t, db), core.Rollback)
	hook.answers(200, "a", func(ctx context.Context) {
		require.ErrorIs(t, elsewhere.Process(ctx, m, never(t)), gormstore.ErrOutsideTransaction)
		require.NoError(t, elsewhere.Process(gormstore.Outside(ctx), m, stock))
	})
	require.Equal(t, 1, countEffects(t, other))
}

// In a unit test of a handler the message goes where its rows go.
//
// CONTRACT Q-3
func TestInboxInAUnitTest(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		box, m := newInbox(t, db, stockInbox), message()
		tx := db.Begin()
		ctx := gormstore.WithTx(t.Context(), tx)
		require.NoError(t, box.Process(ctx, m, stock))
		require.NoError(t, box.Process(ctx, m, never(t)))
		require.NoError(t, tx.Rollback().Error)
		requireUnprocessed(t, db, box, m)
	})
}

// A message whose time is over is undone in an attempt that goes on.
//
// CONTRACT Q-3
func TestInboxDeadlineInAnAttempt(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		cfg := stockInbox
		cfg.Deadline = 3 * time.Second // a busy machine needs a while for the row
		hook, box, m := newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, cfg), message()
		hook.answers(202, "a", func(ctx context.Context) {
			require.ErrorContains(t, box.Process(ctx, m, func(tx *gorm.DB) error {
				require.NoError(t, stock(tx))
				<-tx.Statement.Context.Done()
				return nil
			}), "inbox.Config.Deadline")
		})
		require.Zero(t, countEffects(t, db))
		requireUnprocessed(t, db, box, m)
	})
}

// A handler processes two messages in two goroutines. A savepoint has no place for two at once: what undoes the first would
// undo the second, whose Process has returned nil. So the second is refused.
//
// CONTRACT
func TestInboxOneMessageAtATimeInAnAttempt(t *testing.T) {
	errNoStock := errors.New("no stock")
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		hook, box := newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, stockInbox)
		first, second, third := message(), message(), message()
		hook.answers(200, "a", func(ctx context.Context) {
			running, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- box.Process(ctx, first, func(*gorm.DB) error {
					close(running)
					<-release
					return errNoStock
				})
			}()
			<-running
			refused := box.Process(ctx, second, stock)
			close(release)
			require.ErrorIs(t, <-ended, errNoStock)
			require.ErrorIs(t, refused, inbox.ErrTwoMessages)
			require.NoError(t, box.Process(ctx, third, stock), "one after the other")
		})
		require.Equal(t, 1, countEffects(t, db))
		requireProcessed(t, box, third)
		for _, m := range []inbox.Message{first, second} {
			requireUnprocessed(t, db, box, m)
		}
		requireIdle(t, db)
	})
}

// An attempt ends while one of its goroutines still processes a message. Then its transaction must not commit: the marker
// would commit without the rest of the message's rows, and the next delivery would be skipped as a duplicate.
//
// CONTRACT
func TestInboxOutlivesItsAttempt(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		hook, box, m := newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, stockInbox), message()
		var kept context.Context
		var release chan struct{}
		var ended chan error
		leaveBehind := func(ctx context.Context) { // returns while the message is being processed
			running := make(chan struct{})
			release, ended = make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- box.Process(ctx, m, func(tx *gorm.DB) error {
					close(running)
					<-release
					return stock(tx)
				})
			}()
			<-running
		}
		requireLate := func() {
			close(release)
			require.Error(t, <-ended)
			require.Zero(t, countEffects(t, db))
		}

		require.Equal(t, 500, hook.call("a", func(ctx context.Context) int {
			leaveBehind(ctx)
			return 200
		}).Code)
		requireLate()
		hook.answers(200, "a", func(ctx context.Context) {
			kept = ctx
		})
		require.ErrorContains(t, box.Process(kept, m, never(t)), "the attempt is over")

		around := message() // another message's transaction in the place of the attempt's
		require.ErrorIs(t, box.Process(t.Context(), around, func(tx *gorm.DB) error {
			leaveBehind(tx.Statement.Context)
			return nil
		}), core.ErrAborted)
		requireLate()
		requireUnprocessed(t, db, box, around)
		requireUnprocessed(t, db, box, m)
		requireIdle(t, db)
	})
}
