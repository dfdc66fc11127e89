package watermillidem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/watermillidem"
)

func delivery(b *bench) *message.Message {
	return message.NewMessageWithContext(b.Context(), watermill.NewUUID(), []byte(`{"amount":"10.00"}`))
}

// CONTRACT Q-1
func TestInboxHandler(t *testing.T) {
	each(t, func(b *bench) {
		handle := watermillidem.Inbox(b.inbox("stock"), topic, func(tx *gorm.DB, msg *message.Message) error {
			if tx.Statement.Context != msg.Context() {
				return errors.New("two contexts")
			}
			return addRow(gormstore.Tx(msg.Context()))
		})
		msg := delivery(b)
		for range 2 {
			require.NoError(b, handle(msg.Copy()))
		}
		require.Equal(b, 1, b.rows())

		reused := delivery(b)
		reused.UUID, reused.Payload = msg.UUID, []byte(`{}`)
		without := delivery(b)
		without.UUID = ""
		old := delivery(b)
		old.Metadata.Set(watermillidem.PublishedAt, time.Now().Add(-31*24*time.Hour).Format(time.RFC3339Nano))
		strange := delivery(b)
		strange.Metadata.Set(watermillidem.PublishedAt, "yesterday")
		for _, poison := range []struct {
			msg  *message.Message
			want error
		}{
			{reused, gormstore.ErrMessageReused},
			{without, gormstore.ErrMessageInvalid},
			{old, gormstore.ErrMessageTooOld},
			{strange, gormstore.ErrMessageInvalid},
		} {
			err := handle(poison.msg)
			require.ErrorIs(b, err, poison.want)
			require.True(b, watermillidem.Permanent(err))
		}
		require.Equal(b, 1, b.rows())
	})
}

func TestPermanent(t *testing.T) {
	t.Parallel()
	for _, err := range []error{gormstore.ErrMessageBusy, core.ErrRetryable, core.ErrUnconfirmed, context.Canceled, nil} {
		require.False(t, watermillidem.Permanent(err), err)
	}
}

// CONTRACT Q-1
func TestMiddleware(t *testing.T) {
	each(t, func(b *bench) {
		fail, panics, produce := errors.New("no stock"), false, 0
		wrapped := watermillidem.Middleware(b.inbox("stock"), topic)(func(msg *message.Message) ([]*message.Message, error) {
			if err := addRow(gormstore.Tx(msg.Context())); err != nil {
				return nil, err
			}
			if panics {
				panic("no stock")
			}
			return make([]*message.Message, produce), fail
		})
		msg := delivery(b)
		_, err := wrapped(msg)
		require.ErrorIs(b, err, fail)
		require.Equal(b, b.Context(), msg.Context(), "outer middleware gets the message as it was")

		fail, produce = nil, 1
		_, err = wrapped(msg)
		require.ErrorIs(b, err, watermillidem.ErrProduced)

		produce, panics = 0, true
		require.Panics(b, func() { _, _ = wrapped(msg) })
		require.Equal(b, b.Context(), msg.Context())
		require.Zero(b, b.rows())

		panics = false
		for range 2 {
			produced, err := wrapped(msg)
			require.NoError(b, err)
			require.Empty(b, produced)
		}
		require.Equal(b, 1, b.rows())
	})
}

// A delivery that meets another one is held back before it is given back, as long as its context allows.
//
// CONTRACT Q-1
func TestBusyDelay(t *testing.T) {
	each(t, func(b *bench) {
		running, release := make(chan struct{}), make(chan struct{})
		inbox, msg := b.inbox("stock"), delivery(b)
		first := make(chan error, 1)
		go func() {
			first <- watermillidem.Inbox(inbox, topic, func(*gorm.DB, *message.Message) error {
				close(running)
				<-release
				return nil
			})(msg.Copy())
		}()
		<-running
		again := watermillidem.Inbox(inbox, topic, func(*gorm.DB, *message.Message) error {
			b.Error("the handler runs")
			return nil
		})
		begun := time.Now()
		require.ErrorIs(b, again(msg), gormstore.ErrMessageBusy)
		require.GreaterOrEqual(b, time.Since(begun), watermillidem.BusyDelay)

		begun = time.Now()
		ctx, cancel := context.WithTimeout(b.Context(), 50*time.Millisecond)
		defer cancel()
		msg.SetContext(ctx)
		require.ErrorIs(b, again(msg), gormstore.ErrMessageBusy)
		require.Less(b, time.Since(begun), watermillidem.BusyDelay)
		close(release)
		require.NoError(b, <-first)
	})
}

// A consumer's own events commit with its rows, and are known by the message and the group.
//
// CONTRACT
func TestInboxPublishes(t *testing.T) {
	each(t, func(b *bench) {
		msg := delivery(b)
		fails := 0
		for _, group := range []string{"stock", "mail"} {
			inbox := b.inbox(group)
			for _, fail := range []error{errors.New("later"), nil, nil} {
				err := watermillidem.Inbox(inbox, topic, func(tx *gorm.DB, _ *message.Message) error {
					if fail != nil {
						fails++
					}
					return errors.Join(b.pay(tx), fail)
				})(msg.Copy())
				require.Equal(b, fail != nil, err != nil)
			}
		}
		require.Equal(b, 2, fails)
		ids := b.published()
		require.Len(b, ids, 2)
		require.NotEqual(b, ids[0], ids[1])
		require.Equal(b, 2, b.rows())
	})
}
