package gormstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/gormstore/inbox"
)

// A call in the handler of a message has the message's key: the same in every delivery, another for another message, and
// nothing waits for the writer that the inbox holds.
//
// CONTRACT Q-4, C-3
func TestCallInAnInboxHandler(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		client := journalClient(t, idemclient.Config{Journal: newJournal(t, db)})
		p, box, first, second := newCharges(t), newInbox(t, db, stockInbox), message(), message()
		later := errors.New("later")
		var keys []string
		for _, delivery := range []struct {
			m    inbox.Message
			fail error
		}{{first, later}, {first, nil}, {second, nil}, {first, nil}} {
			err := box.Process(t.Context(), delivery.m, func(tx *gorm.DB) error {
				ctx, cancel := context.WithTimeout(tx.Statement.Context, 5*time.Second)
				defer cancel()
				require.NoError(t, p.charge(ctx, client, "charge"))
				id, ok := core.Origin(ctx)
				require.True(t, ok)
				keys = append(keys, id.DeriveCall("charge").UUID())
				return errors.Join(stock(tx), delivery.fail)
			})
			require.ErrorIs(t, err, delivery.fail)
		}
		require.Len(t, keys, 3, "the duplicate was skipped")
		require.Equal(t, keys[0], keys[1])
		require.NotEqual(t, keys[0], keys[2])
		require.Equal(t, []string{keys[0], keys[2]}, p.made(), "one charge for each message")
		require.Equal(t, 2, countEffects(t, db))
	})
}

// A message that joins an attempt keeps its key, whichever operation brings it.
//
// CONTRACT Q-4
func TestCallInAJoinedInbox(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		client := journalClient(t, idemclient.Config{})
		p, hook, box, m := newCharges(t), newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, stockInbox), message()
		for _, key := range []string{"a", "b"} {
			hook.answers(500, key, func(ctx context.Context) {
				require.NoError(t, box.Process(ctx, m, func(tx *gorm.DB) error {
					return p.charge(tx.Statement.Context, client, "charge")
				}))
			})
		}
		require.Len(t, p.made(), 1, "it has charged once")
	})
}

// On SQLite the handler's transaction has the one writer. A write past it would wait for itself: it is refused at once.
//
// CONTRACT Q-4
func TestJournalInsideATransaction(t *testing.T) {
	t.Parallel()
	db := freshSQLite(t)(t)
	store := newStore(t, db)
	j := newJournal(t, db)
	writes := func(ctx context.Context) {
		_, err := j.Begin(ctx, intents.Entry{Intent: "order-7/pay", Key: "k"})
		require.ErrorContains(t, err, "write through that transaction")
		require.ErrorContains(t, j.End(ctx, "order-7/pay"), "SQLite has one writer")
	}
	require.NoError(t, newInbox(t, db, stockInbox).Process(t.Context(), message(), func(tx *gorm.DB) error {
		writes(tx.Statement.Context)
		return nil
	}))
	tx, ctx := begin(t, store, command(core.Rollback))
	writes(ctx)
	require.NoError(t, tx.Rollback())
	require.NoError(t, j.End(t.Context(), "order-7/pay"))
}
