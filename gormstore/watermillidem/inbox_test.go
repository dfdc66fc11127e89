package watermillidem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/gormstore/watermillidem"
)

func delivery(b *bench) *message.Message {
	return message.NewMessageWithContext(b.Context(), watermill.NewUUID(), []byte(`{"amount":"10.00"}`))
}

// CONTRACT Q-1
func TestInboxHandler(t *testing.T) {
	each(t, func(b *bench) {
		handle := b.handler(b.inbox("stock"), func(tx *gorm.DB, msg *message.Message) error {
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
			{reused, inbox.ErrReused},
			{without, inbox.ErrInvalid},
			{old, inbox.ErrTooOld},
			{strange, inbox.ErrInvalid},
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
	for _, err := range []error{inbox.ErrBusy, core.ErrRetryable, core.ErrUnconfirmed, context.Canceled, nil} {
		require.False(t, watermillidem.Permanent(err), err)
	}
}

// outcome is what outer middleware sees of a delivery.
type outcome struct {
	produced int
	err      error
}

// CONTRACT Q-1
func TestWrap(t *testing.T) {
	each(t, func(b *bench) {
		errNoStock := errors.New("no stock")
		var handle func() (message.Messages, error)
		broker := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		outcomes := make(chan outcome)
		b.route(func(r *message.Router) {
			h := r.AddHandler("stock", topic, broker, "produced", broker, func(msg *message.Message) ([]*message.Message, error) {
				if err := addRow(gormstore.Tx(msg.Context())); err != nil {
					return nil, err
				}
				return handle()
			})
			h.AddMiddleware(func(next message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					before := msg.Context()
					produced, err := next(msg)
					if msg.Context() != before {
						err = errors.Join(err, errors.New("outer middleware gets the message as it was"))
					}
					outcomes <- outcome{len(produced), err}
					return nil, nil
				}
			}, middleware.Recoverer)
			require.NoError(b, watermillidem.Wrap(h, b.inbox("stock"), topic))
		})
		msg := delivery(b)
		deliver := func() outcome {
			b.Helper()
			require.NoError(b, broker.Publish(topic, msg.Copy()))
			return <-outcomes
		}
		handle = func() (message.Messages, error) { return nil, errNoStock }
		require.ErrorIs(b, deliver().err, errNoStock)
		handle = func() (message.Messages, error) { return make(message.Messages, 1), nil }
		require.ErrorIs(b, deliver().err, watermillidem.ErrProduced)
		handle = func() (message.Messages, error) { panic("no stock") }
		require.ErrorContains(b, deliver().err, "no stock")
		require.Zero(b, b.rows())
		handle = func() (message.Messages, error) { return nil, nil }
		for range 2 {
			done := deliver()
			require.NoError(b, done.err)
			require.Zero(b, done.produced)
		}
		require.Equal(b, 1, b.rows())
	})
}

// The marker belongs to the handler: two handlers of one topic with one inbox, and half of all handlings would be taken
// for duplicates.
//
// CONTRACT Q-3
func TestTwoHandlersNeedTwoGroups(t *testing.T) {
	each(t, func(b *bench) {
		broker := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
		handled := func(*message.Message) error { return addRow(b.db) }
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
		require.NoError(b, err)
		box := b.inbox("stock")
		require.NoError(b, watermillidem.Wrap(router.AddConsumerHandler("stock", topic, broker, handled), box, topic))
		second := router.AddConsumerHandler("mail", topic, broker, handled)
		err = watermillidem.Wrap(second, box, topic)
		require.ErrorIs(b, err, inbox.ErrTwoHandlers)
		require.ErrorContains(b, err, `group "stock", source "payments"`)
		_, err = watermillidem.Inbox(box, topic, func(*gorm.DB, *message.Message) error { return nil })
		require.ErrorIs(b, err, inbox.ErrTwoHandlers)
		require.NoError(b, watermillidem.Wrap(second, box, "refunds"), "another source")
	})
}

// What cannot be seen at start is refused when it happens: two inboxes of one group, or one function for two handlers. No
// message is dropped as a duplicate.
//
// CONTRACT Q-3
func TestTwoHandlersOfOneGroup(t *testing.T) {
	each(t, func(b *bench) {
		broker := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
		refusals := make(chan error)
		handle := b.handler(b.inbox("stock"), func(tx *gorm.DB, _ *message.Message) error { return addRow(tx) })
		b.route(func(r *message.Router) {
			for _, name := range []string{"stock", "mail"} {
				r.AddConsumerHandler(name, topic, broker, handle).AddMiddleware(
					func(next message.HandlerFunc) message.HandlerFunc {
						return func(msg *message.Message) ([]*message.Message, error) {
							if _, err := next(msg); err != nil {
								refusals <- err
							}
							return nil, nil
						}
					})
			}
		})
		require.NoError(b, broker.Publish(topic, delivery(b)))
		require.ErrorIs(b, <-refusals, inbox.ErrTwoHandlers)
		b.eventually("the other has handled it", func() bool { return b.rows() == 1 })
	})
}

// A delivery that meets another one is held back before it is given back, as long as its context allows.
//
// CONTRACT Q-1
func TestBusyDelay(t *testing.T) {
	each(t, func(b *bench) {
		running, release := make(chan struct{}), make(chan struct{})
		box, msg := b.inbox("stock"), delivery(b)
		first := make(chan error, 1)
		go func() {
			first <- b.handler(box, func(*gorm.DB, *message.Message) error {
				close(running)
				<-release
				return nil
			})(msg.Copy())
		}()
		<-running
		again := b.handler(b.inbox("stock"), func(*gorm.DB, *message.Message) error {
			b.Error("the handler runs")
			return nil
		})
		begun := time.Now()
		require.ErrorIs(b, again(msg), inbox.ErrBusy)
		require.GreaterOrEqual(b, time.Since(begun), watermillidem.BusyDelay)

		begun = time.Now()
		ctx, cancel := context.WithTimeout(b.Context(), 50*time.Millisecond)
		defer cancel()
		msg.SetContext(ctx)
		require.ErrorIs(b, again(msg), inbox.ErrBusy)
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
			var fail error
			handle := b.handler(b.inbox(group), func(tx *gorm.DB, _ *message.Message) error {
				if fail != nil {
					fails++
				}
				return errors.Join(b.pay(tx), fail)
			})
			for _, fail = range []error{errors.New("later"), nil, nil} {
				require.Equal(b, fail != nil, handle(msg.Copy()) != nil)
			}
		}
		require.Equal(b, 2, fails)
		ids := b.published()
		require.Len(b, ids, 2)
		require.NotEqual(b, ids[0], ids[1])
		require.Equal(b, 2, b.rows())
	})
}
