package watermillidem

import (
	"context"
	"errors"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// PublishedAt is the metadata in which [Event] writes when an event was published, in RFC 3339.
const PublishedAt = "idem_published_at"

// ErrNoTransaction is the error of publishing outside a transaction. It never falls back to the plain database: the
// event would be there without the rows, or the rows without the event.
var ErrNoTransaction = errors.New("idem: watermillidem: there is no transaction in the context to publish from. Use the " +
	"context of a Rollback handler, or tx.Statement.Context of a gormstore.Step or an inbox")

// Publisher returns Watermill's SQL publisher on the transaction that ctx belongs to: a Rollback attempt, a
// [gormstore.Step], a handler of an inbox. What it publishes is there if and only if the rows are.
//
// schema says where: sql.DefaultPostgreSQLSchema{} or [SQLiteSchema]. The tables are made before, by a subscriber with
// InitializeSchema or by a migration: DDL has no place in a transaction of money. Where the broker is another, wrap the
// publisher by forwarder.NewPublisher, and run a forwarder.Forwarder.
//
// Error: [ErrNoTransaction]; those of sql.NewPublisher.
func Publisher(ctx context.Context, schema wsql.SchemaAdapter) (message.Publisher, error) {
	tx, ok := gormstore.SQLTx(ctx)
	if !ok {
		return nil, ErrNoTransaction
	}
	return wsql.NewPublisher(executor{tx}, wsql.PublisherConfig{SchemaAdapter: schema}, nil)
}

// executor is a transaction as watermill-sql wants it.
type executor struct{ gormstore.DBTX }

// ExecContext implements [wsql.ContextExecutor].
func (e executor) ExecContext(ctx context.Context, query string, args ...any) (wsql.Result, error) {
	return e.DBTX.ExecContext(ctx, query, args...)
}

// QueryContext implements [wsql.ContextExecutor].
func (e executor) QueryContext(ctx context.Context, query string, args ...any) (wsql.Rows, error) {
	return e.DBTX.QueryContext(ctx, query, args...) //nolint:rowserrcheck // whoever reads the rows
}

// Event returns a message whose UUID is derived from the name and from what ctx is at: the operation of a guarded
// handler, or the message that an inbox processes. So the event keeps its id whichever attempt publishes it. Two events
// of one operation need two names.
//
// Error: [ErrNoTransaction], where ctx belongs to neither.
func Event(ctx context.Context, name string, payload []byte) (*message.Message, error) {
	origin, ok := gormstore.MessageKey(ctx)
	if !ok {
		origin, ok = core.Operation(ctx)
	}
	if !ok {
		return nil, ErrNoTransaction
	}
	event := EventOf(origin, name, payload)
	event.SetContext(ctx)
	return event, nil
}

// EventOf returns the event that [Event] makes in the handler of an operation, for whoever settles it in the handler's
// place: an operator's route, a reconciler.
func EventOf(operation core.ID, name string, payload []byte) *message.Message {
	// The prefix: a provider's key is nobody else's to know, though a call may have the same name.
	event := message.NewMessage(core.DeriveKey(operation, "event/"+name).UUID(), payload)
	event.Metadata.Set(PublishedAt, time.Now().UTC().Format(time.RFC3339Nano))
	return event
}
