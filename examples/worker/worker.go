package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/gormstore/watermillidem"
)

// group is the consumer group: any number of workers may share it, and together they handle each message once.
const group = "fulfilment"

// Times of the worker and of the broker.
const (
	handleWithin    = 5 * time.Second    // one try at a message
	handBackFor     = time.Second        // what was handed back comes again after this
	brokerRetention = 7 * 24 * time.Hour // how long a message may come again at all, dead letters included
)

// worker handles the events of payments.
type worker struct{ router *message.Router }

// newWorker prepares a worker on the database: tables, broker and inbox. around wraps the handling of each message, for
// tests.
func newWorker(
	ctx context.Context, db *gorm.DB, b *broker, log watermill.LoggerAdapter, around ...message.HandlerMiddleware,
) (*worker, error) {
	if err := migrate(ctx, db); err != nil {
		return nil, err
	}
	box, err := inbox.New(db, inbox.Config{
		Group: group, BrokerRetention: brokerRetention, Deadline: handleWithin,
	})
	if err != nil {
		return nil, err
	}
	if err := box.Validate(ctx); err != nil {
		return nil, err
	}
	handle, err := handler(box)
	if err != nil {
		return nil, err
	}
	w := &worker{}
	if w.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: 2 * handleWithin}, log); err != nil {
		return nil, err
	}
	guards, err := guard(b.dead)
	if err != nil {
		return nil, err
	}
	w.router.AddSubscriberDecorators(untilClosed)
	handler := w.router.AddConsumerHandler(group, captured, b.subscriber, handle)
	handler.AddMiddleware(around...)
	handler.AddMiddleware(guards...)
	if b.forward != nil {
		err = b.forward(w.router)
	}
	return w, err
}

// migrate creates the worker's tables and fills the warehouse.
func migrate(ctx context.Context, db *gorm.DB) error {
	if err := database.Migrate(ctx, db, &Stock{}, &Mail{}); err != nil {
		return err
	}
	return fillWarehouse(db.WithContext(ctx))
}

// handler changes stock and mail log once per message: its rows and the message's marker commit in one transaction (contract
// Q-1), and a message that was handled before changes nothing. So the broker may deliver a message twice, and the worker may
// be killed between COMMIT and acknowledgement.
func handler(box *inbox.Inbox) (message.NoPublishHandlerFunc, error) {
	once, err := watermillidem.Inbox(box, captured, func(tx *gorm.DB, m *message.Message) error {
		event, err := paymentCaptured(m)
		if err != nil {
			return err
		}
		left, err := ship(tx)
		if err != nil {
			return err
		}
		m.Metadata.Set(done, fmt.Sprintf("worker: %s %s for order %s: a piece taken, %d left; a mail written",
			event.Amount, event.Currency, event.OrderID, left))
		return confirm(tx, event)
	})
	return func(m *message.Message) error {
		defer delete(m.Metadata, done)
		if err := once(m); err != nil {
			return err
		}
		if line := m.Metadata.Get(done); line != "" { // said only now: what is not committed has not happened
			fmt.Println(line)
		}
		return nil
	}, err
}

// done is the name of the metadata that says what was done for a message while it is handled.
const done = "done"
