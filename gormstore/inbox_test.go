package gormstore_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

// newInbox returns an inbox of the group "stock".
func newInbox(t *testing.T, db *gorm.DB) *gormstore.Inbox {
	t.Helper()
	inbox, err := gormstore.NewInbox(db, gormstore.InboxConfig{Group: "stock", BrokerRetention: 7 * 24 * time.Hour})
	require.NoError(t, err)
	return inbox
}

// message returns a new message.
func message() gormstore.Message {
	return gormstore.Message{Source: "payments", ID: rand.Text(), Payload: []byte(`{"amount":"10.00"}`)}
}

// stock is a handler that changes rows.
func stock(tx *gorm.DB) error { return tx.Create(&effect{Name: "stock"}).Error }

// CONTRACT Q-1
func TestInboxProcessesOnce(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			db := d.fresh(t)(t)
			inbox, m := newInbox(t, db), message()
			for range 3 {
				require.NoError(t, inbox.Process(t.Context(), m, stock))
				require.Equal(t, 1, countEffects(t, db))
			}
			m.Payload = []byte(`{"amount":"99.00"}`)
			require.ErrorIs(t, inbox.Process(t.Context(), m, stock), gormstore.ErrMessageReused)
			require.Equal(t, 1, countEffects(t, db))
		})
	}
}
