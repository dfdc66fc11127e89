package gormstore_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
)

// books is a message's handler that books a charge. It keeps what CreateOnce has said.
type books struct {
	row     charge
	created bool
	err     error
}

func (b *books) handle(reference string) func(tx *gorm.DB) error {
	return func(tx *gorm.DB) error {
		b.row = charge{Reference: reference, Amount: 5}
		b.created, b.err = gormstore.CreateOnce(tx, &b.row)
		return nil
	}
}

// A message books its row under its own id. The row stands where the marker is lost, as an operation's stands where its
// record is.
//
// CONTRACT D-1, D-3, Q-1
func TestAMessageBooksOnce(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.AutoMigrate(&charge{}))
		store := newStore(t, db)
		box, m := newInbox(t, db, stockInbox), message()
		parked := newWebhook(t, store, core.Park)
		attempts := newWebhook(t, store, core.Rollback)
		resumed := newWebhook(t, store, core.Resume)
		deliveries := map[string]func(key string, m inbox.Message, fn func(*gorm.DB) error){
			"alone": func(_ string, m inbox.Message, fn func(*gorm.DB) error) {
				require.NoError(t, box.Process(t.Context(), m, fn))
			},
			"attempt": func(key string, m inbox.Message, fn func(*gorm.DB) error) {
				attempts.answers(200, key, func(ctx context.Context) { require.NoError(t, box.Process(ctx, m, fn)) })
			},
			"step": func(key string, m inbox.Message, fn func(*gorm.DB) error) {
				resumed.answers(200, key, func(ctx context.Context) {
					_, err := gormstore.Step(ctx, "book", func(tx *gorm.DB) (int, error) {
						return 0, box.Process(tx.Statement.Context, m, fn)
					})
					require.NoError(t, err)
				})
			},
			"outside": func(key string, m inbox.Message, fn func(*gorm.DB) error) {
				parked.answers(200, key, func(ctx context.Context) {
					require.NoError(t, box.Process(gormstore.Outside(ctx), m, fn))
				})
			},
		}
		var first books
		require.NoError(t, box.Process(t.Context(), m, first.handle("r-1")))
		require.NoError(t, first.err)
		require.True(t, first.created)
		sum := sha256.Sum256(m.Payload)
		require.Equal(t, "0:"+hex.EncodeToString(sum[:]), first.row.CommandHash)

		for name, deliver := range deliveries {
			execute(t, db, "DELETE FROM processed_message")
			var again, other, free books
			deliver(name+"-1", m, again.handle("r-1"))
			require.NoError(t, again.err, name)
			require.False(t, again.created, name)
			require.Equal(t, first.row, again.row, name)

			execute(t, db, "DELETE FROM processed_message")
			deliver(name+"-2", reused(m), other.handle("r-2"))
			require.ErrorIs(t, other.err, gormstore.ErrOtherOperation, name)

			deliver(name+"-3", message(), free.handle(name))
			require.NoError(t, free.err, name)
			require.True(t, free.created, name)
		}
		require.Equal(t, 1+len(deliveries), query[int](t, db, "SELECT count(*) FROM charges"))
	})
}

// A webhook completes an order, and so does the confirm route. The business key is what they share, so that whoever comes
// second is told, whichever it is.
//
// CONTRACT D-1, D-3
func TestAMessageAndACommandShareABusinessKey(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.AutoMigrate(&charge{}))
		hook, box := newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, stockInbox)
		var message1, message2, command1, command2 books
		confirm := func(key string, b *books, reference string) {
			hook.answers(http.StatusOK, key, func(ctx context.Context) { require.NoError(t, b.handle(reference)(gormstore.Tx(ctx))) })
		}
		require.NoError(t, box.Process(t.Context(), message(), message1.handle("order-1")))
		confirm("k-1", &command1, "order-1")
		require.ErrorIs(t, command1.err, gormstore.ErrOtherOperation)

		confirm("k-2", &command2, "order-2")
		m := message()
		require.NoError(t, box.Process(t.Context(), m, message2.handle("order-2")))
		require.ErrorIs(t, message2.err, gormstore.ErrOtherOperation)
		requireProcessed(t, box, m)

		require.True(t, message1.created)
		require.True(t, command2.created)
		require.Equal(t, 2, query[int](t, db, "SELECT count(*) FROM charges"))
	})
}

// A message that has joined an attempt books under its own id, and the attempt beside it under the operation's.
//
// CONTRACT D-1
func TestAMessageAndItsAttemptBookApart(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.AutoMigrate(&charge{}))
		hook, box := newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, stockInbox)
		hook.answers(200, "k", func(ctx context.Context) {
			var joined, own books
			require.NoError(t, box.Process(ctx, message(), func(tx *gorm.DB) error {
				id, _ := core.Origin(tx.Statement.Context)
				require.NoError(t, joined.handle("r-1")(tx))
				require.Equal(t, id.String(), joined.row.OperationID)
				return nil
			}))
			require.NoError(t, own.handle("r-2")(gormstore.Tx(ctx)))
			operation, _ := core.Operation(ctx)
			require.Equal(t, operation.String(), own.row.OperationID)
			require.True(t, joined.created && own.created)
			require.NotEqual(t, joined.row.OperationID, own.row.OperationID)
			require.NotEqual(t, joined.row.CommandHash, own.row.CommandHash)
		})
	})
}
