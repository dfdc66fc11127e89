package gormstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// A handler processes two messages in two goroutines. A savepoint has no place for two at once: what undoes the first would
// undo the second, whose Process has returned nil. So the second is refused.
//
// CONTRACT
func TestInboxOneMessageAtATimeInAnAttempt(t *testing.T) {
	errNoStock := errors.New("no stock")
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		hook, inbox := newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, stockInbox)
		first, second, third := message(), message(), message()
		hook.answers(200, "a", func(ctx context.Context) {
			running, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- inbox.Process(ctx, first, func(*gorm.DB) error {
					close(running)
					<-release
					return errNoStock
				})
			}()
			<-running
			refused := inbox.Process(ctx, second, stock)
			close(release)
			require.ErrorIs(t, <-ended, errNoStock)
			require.ErrorIs(t, refused, gormstore.ErrTwoMessages)
			require.NoError(t, inbox.Process(ctx, third, stock), "one after the other")
		})
		require.Equal(t, 1, countEffects(t, db))
		requireProcessed(t, inbox, third)
		for _, m := range []gormstore.Message{first, second} {
			requireUnprocessed(t, db, inbox, m)
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
		hook, inbox, m := newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, stockInbox), message()
		var kept context.Context
		var release chan struct{}
		var ended chan error
		leaveBehind := func(ctx context.Context) { // returns while the message is being processed
			running := make(chan struct{})
			release, ended = make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- inbox.Process(ctx, m, func(tx *gorm.DB) error {
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
		require.ErrorContains(t, inbox.Process(kept, m, never(t)), "the attempt is over")

		around := message() // another message's transaction in the place of the attempt's
		require.ErrorIs(t, inbox.Process(t.Context(), around, func(tx *gorm.DB) error {
			leaveBehind(tx.Statement.Context)
			return nil
		}), core.ErrAborted)
		requireLate()
		requireUnprocessed(t, db, inbox, around)
		requireUnprocessed(t, db, inbox, m)
		requireIdle(t, db)
	})
}
