package watermillidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// PublishedAt is the metadata in which [Event] writes when an event was published, in RFC 3339.
const PublishedAt = "idem_published_at"

// ErrNoTransaction is the error of publishing outside a transaction. It never falls back to the plain database: the
// event would be there without the rows, or the rows without the event.
var ErrNoTransaction = errors.New("idem: watermillidem: there is no transaction in the context to publish from. Use the " +
	"context of a Rollback handler, or tx.Statement.Context of a gormstore.Step or an inbox")

// ErrEventTooLarge is the error of publishing an event that is above the cap: a broker that does not take it would get
// it again and again. Put what is large elsewhere, and its name into the event.
var ErrEventTooLarge = errors.New("idem: watermillidem: the event is above the cap of the outbox " +
	"(watermillidem.MaxEvent), and the broker might never take it; keep its data elsewhere and name it in the event")

// DefaultMaxEvent is how large an event may be unless [MaxEvent] says otherwise, in bytes of its id, metadata and payload
// together: what the usual brokers take, and a quarter of the limit of NATS and Kafka.
const DefaultMaxEvent = 256 << 10

// Option is a setting of [Publisher].
type Option func(*publisher)

// MaxEvent caps events at so many bytes of id, metadata and payload together, in place of [DefaultMaxEvent]: less than
// the limit of the broker that they go to. An event in a forwarder's envelope is a third longer than by itself.
func MaxEvent(bytes int) Option { return func(p *publisher) { p.limit = bytes } }

// Publisher returns Watermill's SQL publisher on the transaction that ctx belongs to: a Rollback attempt, a
// [gormstore.Step], a handler of an inbox. What it publishes is there if and only if the rows are.
//
// schema says where: sql.DefaultPostgreSQLSchema{} or [SQLiteSchema]. The tables are made before, by a subscriber with
// InitializeSchema or by a migration: DDL has no place in a transaction of money. Where the broker is another, wrap the
// publisher by forwarder.NewPublisher, and run a [NewForwarder].
//
// Error: [ErrNoTransaction]; those of sql.NewPublisher. Publishing fails with [ErrEventTooLarge] above the cap; nothing of
// that call is published then.
func Publisher(ctx context.Context, schema wsql.SchemaAdapter, options ...Option) (message.Publisher, error) {
	tx, ok := gormstore.SQLTx(ctx)
	if !ok {
		return nil, ErrNoTransaction
	}
	plain, err := wsql.NewPublisher(executor{tx}, wsql.PublisherConfig{SchemaAdapter: schema}, nil)
	if err != nil {
		return nil, err
	}
	capped := publisher{Publisher: plain, limit: DefaultMaxEvent}
	for _, set := range options {
		set(&capped)
	}
	return capped, nil
}

// publisher is a publisher with a cap.
type publisher struct {
	message.Publisher
	limit int
}

// Publish implements [message.Publisher].
func (p publisher) Publish(topic string, events ...*message.Message) error {
	for _, event := range events {
		if size := sizeOf(event); size > p.limit {
			return fmt.Errorf("%w: %d bytes of at most %d", ErrEventTooLarge, size, p.limit)
		}
	}
	return p.Publisher.Publish(topic, events...)
}

func sizeOf(event *message.Message) int {
	size := len(event.UUID) + len(event.Payload)
	for name, value := range event.Metadata {
		size += len(name) + len(value)
	}
	return size
}

// executor is a transaction as watermill-sql wants it.
type executor struct{ gormstore.DBTX }

// ExecContext implements [wsql.ContextExecutor].
func (e executor) ExecContext(ctx context.Context, query string, args ...any) (wsql.Result, error) {
	return e.DBTX.ExecContext(ctx, query, args...)
}

// QueryContext implements [wsql.ContextExecutor].
func (e executor) QueryContext(ctx context.Context, query string, args ...any) (wsql.Rows, error) {
	return e.DBTX.QueryContext(ctx, query, args...) //nolint:rowserrcheck // the caller reads the rows
}

// Event returns a message whose UUID is derived from the name and from what ctx is at: the operation of a guarded
// handler, or the message that an inbox processes. So the event keeps its id whichever attempt publishes it. Two events
// of one operation need two names: the second of a name is [core.ErrSameEvent], in whatever steps of whatever attempts.
//
// Error: [ErrNoTransaction], where ctx belongs to neither; [core.ErrSameEvent]; one that says that the handler has
// returned.
func Event(ctx context.Context, name string, payload []byte) (*message.Message, error) {
	key, err := core.DeriveEvent(ctx, name)
	switch {
	case errors.Is(err, core.ErrNoHandler):
		return nil, ErrNoTransaction
	case err != nil:
		return nil, err
	}
	event := newEvent(key, payload)
	event.SetContext(ctx)
	return event, nil
}

// EventOf returns the event that [Event] makes in the handler of an operation, for code that settles it in the handler's
// place: an operator's route, a reconciler.
func EventOf(operation store.ID, name string, payload []byte) *message.Message {
	return newEvent(operation.DeriveEvent(name), payload)
}

func newEvent(key store.DerivedKey, payload []byte) *message.Message {
	event := message.NewMessage(key.UUID(), payload)
	event.Metadata.Set(PublishedAt, time.Now().UTC().Format(time.RFC3339Nano))
	return event
}
