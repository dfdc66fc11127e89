package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/watermillidem"
)

// broker brings events from the outbox to the worker.
type broker struct {
	schema     wmsql.SchemaAdapter // of the outbox
	subscriber message.Subscriber
	dead       message.Publisher
	forward    func(router *message.Router) error // nil where the outbox is the broker
}

// outbox is the topic of events that wait for another broker, deadOutbox the topic of those that it has refused.
const (
	outbox     = "outbox"
	deadOutbox = "outbox_dead"
)

// publish publishes an event from the transaction of ctx.
func (b *broker) publish(ctx context.Context, event *message.Message) error {
	publisher, err := watermillidem.Publisher(ctx, b.schema)
	if err != nil {
		return err
	}
	if b.forward != nil {
		publisher = forwarder.NewPublisher(publisher, forwarder.PublisherConfig{ForwarderTopic: outbox})
	}
	return publisher.Publish(captured, event)
}

// openBroker opens the broker that the settings name.
func openBroker(s settings, db *gorm.DB, log watermill.LoggerAdapter) (*broker, error) {
	t, err := tablesOf(db, s.redeliver, log)
	if err != nil {
		return nil, err
	}
	switch s.broker {
	case "sql":
		return sqlBroker(t)
	case "nats":
		return natsBroker(t, s)
	}
	return nil, fmt.Errorf("-broker %s: want sql or nats", s.broker)
}

// sqlBroker is the app's own database: the outbox is the broker.
func sqlBroker(t *tables) (_ *broker, err error) {
	b := &broker{schema: t.schema}
	if b.subscriber, err = t.subscriber(captured, deadLetters); err != nil {
		return nil, err
	}
	b.dead, err = t.publisher()
	return b, err
}

// natsBroker is NATS JetStream. It cannot join the database's transactions. So events go into the outbox, and a forwarder
// brings them to the broker, at least once.
func natsBroker(t *tables, s settings) (*broker, error) {
	waiting, err := t.subscriber(outbox, deadOutbox)
	if err != nil {
		return nil, err
	}
	dead, err := t.publisher()
	if err != nil {
		return nil, err
	}
	js, err := connectJetStream(s, t.log)
	if err != nil {
		return nil, err
	}
	forward := func(router *message.Router) error {
		_, err := watermillidem.NewForwarder(t.app, waiting, js.publisher, t.log, watermillidem.ForwarderConfig{
			Topic: outbox, Dead: dead, DeadTopic: deadOutbox, Alive: js.alive, Router: router,
		})
		return err
	}
	return &broker{schema: t.schema, subscriber: js.subscriber, dead: js.publisher, forward: forward}, nil
}

func (b *broker) close() error { return errors.Join(b.subscriber.Close(), b.dead.Close()) }
