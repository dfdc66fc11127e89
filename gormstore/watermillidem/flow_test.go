package watermillidem_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/watermillidem"
)

// route runs a router until the test ends, or until it is closed.
func (b *bench) route(build func(r *message.Router)) *message.Router {
	b.Helper()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, watermill.NopLogger{})
	require.NoError(b, err)
	build(router)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(b.Context())) }()
	<-router.Running()
	b.Cleanup(func() {
		require.NoError(b, router.Close())
		require.NoError(b, <-ended)
	})
	return router
}

// eventually waits until something holds that the test cannot be told of.
func (b *bench) eventually(what string, holds func() bool) {
	b.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		require.True(b, time.Now().Before(end), "not yet: %s", what)
	}
}

// letters keeps the ids of messages.
type letters struct {
	mu  sync.Mutex
	ids []string
}

func (l *letters) handle(msg *message.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = append(l.ids, msg.UUID)
	return nil
}

func (l *letters) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.ids...)
}

// publishing is a publisher that hands messages to a function.
type publishing func(msg *message.Message) error

// Publish implements [message.Publisher].
func (p publishing) Publish(_ string, messages ...*message.Message) (err error) {
	for _, msg := range messages {
		err = errors.Join(err, p(msg))
	}
	return err
}

// Close implements [message.Publisher].
func (publishing) Close() error { return nil }

// From the payment to the stock, on the app's own database: every event is in the queue twice, the consumer panics now
// and then, and one event is poison. It goes to the dead letters, and the others go on.
//
// CONTRACT
func TestFromPaymentToStock(t *testing.T) {
	const dead = "payments.dead"
	each(t, func(b *bench) {
		const payments = 10
		for n := range payments {
			event := b.publishes(strconv.Itoa(n), 2)
			if n == payments/2 {
				reused := event.Copy()
				reused.Payload = []byte(`{"amount":"99.00"}`)
				require.NoError(b, b.db.Transaction(func(tx *gorm.DB) error {
					return b.publish(gormstore.WithTx(b.Context(), tx), reused)
				}))
			}
		}
		require.Len(b, b.published(), 2*payments+1)
		poisoned := b.published()[payments]

		letterbox := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
		b.Cleanup(func() { require.NoError(b, letterbox.Close()) })
		var deadLetters letters
		deliveries := 0
		b.route(func(r *message.Router) {
			poison, err := middleware.PoisonQueueWithFilter(letterbox, dead, watermillidem.Permanent)
			require.NoError(b, err)
			r.AddConsumerHandler("stock", topic, b.subscriber("stock"),
				b.handler(b.inbox("stock"), func(tx *gorm.DB, _ *message.Message) error {
					if err := addRow(tx); err != nil {
						return err
					}
					if deliveries++; deliveries%3 == 0 {
						panic("now and then")
					}
					return nil
				})).AddMiddleware(poison, middleware.Recoverer)
			r.AddConsumerHandler("dead", dead, letterbox, deadLetters.handle)
		})
		b.eventually("all events are read", func() bool { return b.acked("stock") >= 2*payments+1 })
		require.Equal(b, payments, b.rows())
		require.Equal(b, []string{poisoned}, deadLetters.all())
		require.Greater(b, deliveries, payments, "some panicked")
	})
}

// acked is the offset that a group has reached.
func (b *bench) acked(group string) (offset int) {
	b.Helper()
	require.NoError(b, b.db.Raw("SELECT coalesce(max(offset_acked), 0) FROM watermill_offsets_"+topic+
		" WHERE consumer_group = ?", group).Scan(&offset).Error)
	return offset
}

// Where the broker is another, a forwarder carries the events there. They keep their ids on the way.
//
// CONTRACT
func TestForwarder(t *testing.T) {
	each(t, func(b *bench) {
		broker := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
		b.Cleanup(func() { require.NoError(b, broker.Close()) })

		var id string
		for _, status := range []int{http.StatusInternalServerError, http.StatusCreated} {
			b.answers(status, b.module(core.Rollback), "a", func(ctx context.Context) {
				publisher, err := watermillidem.Publisher(ctx, b.schema)
				require.NoError(b, err)
				publisher = forwarder.NewPublisher(publisher, forwarder.PublisherConfig{ForwarderTopic: outbox})
				event, err := watermillidem.Event(ctx, "paid", []byte(`{"amount":"10.00"}`))
				require.NoError(b, err)
				id = event.UUID
				require.NoError(b, publisher.Publish(topic, event))
				require.NoError(b, publisher.Publish(topic, event))
			})
		}

		var seen letters
		b.route(func(r *message.Router) {
			_, err := watermillidem.NewForwarder(b.db, b.subscriber("forwarder"), broker, watermill.NopLogger{},
				watermillidem.ForwarderConfig{
					Topic: outbox, Router: r, Dead: broker, DeadTopic: graves, Alive: func(context.Context) error { return nil },
				})
			require.NoError(b, err)
			handle := b.handler(b.inbox("stock"), func(tx *gorm.DB, _ *message.Message) error {
				return addRow(tx)
			})
			r.AddConsumerHandler("stock", topic, broker, func(msg *message.Message) error {
				if err := handle(msg); err != nil {
					return err
				}
				return seen.handle(msg)
			})
		})
		b.eventually("both are through", func() bool { return len(seen.all()) == 2 })
		require.Equal(b, []string{id, id}, seen.all())
		require.Equal(b, 1, b.rows())
	})
}

// Two routers of one group on SQLite may both get a message. The inbox is for that.
//
// CONTRACT Q-1
func TestSQLiteTwoSubscribers(t *testing.T) {
	t.Parallel()
	b := onSQLite(t)
	const events = 20
	for n := range events {
		b.publishes(strconv.Itoa(n), 1)
	}
	for range 2 {
		b.route(func(r *message.Router) {
			r.AddConsumerHandler("stock", topic, b.subscriber("stock"),
				b.handler(b.inbox("stock"), func(tx *gorm.DB, _ *message.Message) error {
					return addRow(tx)
				}))
		})
	}
	b.eventually("all events are read", func() bool { return b.acked("stock") == events })
	require.Equal(b, events, b.rows())
}
