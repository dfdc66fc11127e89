package watermillidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/inbox"
)

// BusyDelay is how long a delivery is held back before it is given back to the broker because another delivery of the
// same message is being processed. A shorter context ends it earlier. Brokers wait on their own, too.
const BusyDelay = time.Second

// ErrProduced is the error of a handler under [Wrap] that returns messages: the router would publish them after the
// transaction, and not again if it were killed in between. Publish them through [Publisher].
var ErrProduced = errors.New("idem: watermillidem: a handler with an inbox must not return messages, which would be " +
	"published outside its transaction; publish them through watermillidem.Publisher(msg.Context(), ...)")

// Inbox returns a handler that processes each message once per group of the inbox: what handle writes through tx
// commits with the message's marker, or neither is there. tx.Statement.Context is the context for repositories, and
// msg.Context() is the same.
//
// A message is known by source and its UUID; one without a UUID is refused. source is where UUIDs are unique: a topic or
// a publisher. When it was published is read from the metadata that [Event] writes.
//
// The marker belongs to the handler: two handlers of one source need two groups. Inbox returns [inbox.ErrTwoHandlers] the
// second time for an inbox and a source, and the handler does where the router has given it two names.
//
// nil acknowledges: processed, now or before. The handler's errors are those of [inbox.Inbox.Process]. Those that
// [Permanent] reports belong to the dead letters; all others are given back to the broker.
func Inbox(box *inbox.Inbox, source string, handle func(tx *gorm.DB, msg *message.Message) error,
) (message.NoPublishHandlerFunc, error) {
	if err := box.Own(source); err != nil {
		return nil, err
	}
	return func(msg *message.Message) error { return process(box, source, msg, handle) }, nil
}

// Wrap puts an [Inbox] around a handler of a router that finds the transaction by itself: gormstore.Tx(msg.Context()).
// Add it as the last middleware, so that it is the innermost: what is inside runs in the transaction. A handler that
// returns messages is refused with [ErrProduced]. It is for one handler, and not for a whole router, whose handlers would
// share the markers. Error: [inbox.ErrTwoHandlers].
func Wrap(handler *message.Handler, box *inbox.Inbox, source string) error {
	if err := box.Own(source); err != nil {
		return err
	}
	handler.AddMiddleware(func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			return nil, process(box, source, msg, func(_ *gorm.DB, msg *message.Message) error {
				produced, err := next(msg)
				if err == nil && len(produced) > 0 {
					err = ErrProduced
				}
				return err
			})
		}
	})
	return nil
}

func process(box *inbox.Inbox, source string, msg *message.Message,
	handle func(tx *gorm.DB, msg *message.Message) error,
) error {
	published, err := publishedAt(msg)
	if err != nil {
		return err
	}
	ctx := msg.Context()
	defer msg.SetContext(ctx) // the transaction's ends with it, and outer middleware still has the message
	m := inbox.Message{
		Source: source, ID: msg.UUID, Payload: msg.Payload, Published: published, Handler: message.HandlerNameFromCtx(ctx),
	}
	err = box.Process(ctx, m, func(tx *gorm.DB) error {
		msg.SetContext(tx.Statement.Context)
		return handle(tx, msg)
	})
	if errors.Is(err, inbox.ErrBusy) {
		pause(ctx, BusyDelay)
	}
	return err
}

// Permanent reports errors that every further delivery of the message would end in: the id belongs to another payload, it
// is older than its marker would be, it has no id. They are for Watermill's dead letters:
//
//	poison, err := middleware.PoisonQueueWithFilter(publisher, "payments.dead", watermillidem.Permanent)
//
// An app adds its own errors: a payload that cannot be read, for instance.
func Permanent(err error) bool {
	return errors.Is(err, inbox.ErrReused) || errors.Is(err, inbox.ErrTooOld) ||
		errors.Is(err, inbox.ErrUnknown) || errors.Is(err, inbox.ErrInvalid)
}

// publishedAt reads when an event was published; zero where its publisher does not say.
func publishedAt(msg *message.Message) (time.Time, error) {
	text := msg.Metadata.Get(PublishedAt)
	if text == "" {
		return time.Time{}, nil
	}
	published, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: metadata %s: %w", inbox.ErrInvalid, PublishedAt, err)
	}
	return published, nil
}

// pause waits for d or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
