package gormstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// Errors of [Inbox.Process] that say what to do with a message. Any other error comes from the handler or the database:
// nothing of the message has stayed, and it must be delivered again.
var (
	// ErrMessageReused: the id has come before, with another payload. The message is no duplicate and has not been
	// processed. Send it to the dead letters.
	ErrMessageReused = errors.New("idem: gormstore: the message id has been processed with another payload; a publisher " +
		"must give every message its own id")

	// ErrMessageBusy: another delivery of the same message is being processed. Give the message back, with a delay.
	ErrMessageBusy = errors.New("idem: gormstore: another delivery of the message is being processed; give it back to the " +
		"broker with a delay")

	// ErrMessageTooOld: the message was published longer ago than a marker lives, and it has no marker. It may have been
	// processed before; it has not been processed now. Send it to the dead letters.
	ErrMessageTooOld = errors.New("idem: gormstore: the message is older than a marker lives (InboxConfig.Keep), so " +
		"nobody knows whether it has been processed")

	// ErrTwoHandlers: another handler processes the messages of this source in the same group. Each of the two would skip as
	// a duplicate what the other has processed.
	ErrTwoHandlers = errors.New("idem: gormstore: two handlers share a consumer group and a source, and each would skip what " +
		"the other has processed; give each handler an inbox with its own Group")

	// ErrMessageUnknown: the handler has ended the inbox's transaction itself, in this delivery or an earlier one. Nobody
	// knows which of its rows have stayed. Send the message to the dead letters.
	ErrMessageUnknown = errors.New("idem: gormstore: nobody knows which of the message's rows have stayed: its handler has " +
		"ended the inbox's transaction itself")

	// ErrMessageInvalid: the message has no id or no source, or one of them is too long. Send it to the dead letters.
	ErrMessageInvalid = errors.New("idem: gormstore: the message cannot be told apart from others")
)

// DefaultKeep is how long the marker of a processed message lives unless an inbox says otherwise.
const DefaultKeep = 30 * 24 * time.Hour

// InboxConfig says what an inbox is for. Group and BrokerRetention are required.
type InboxConfig struct {
	// Group is the consumer group: each group processes a message once. 1 to 255 bytes of UTF-8. Renaming a group makes
	// every message new to it.
	Group string

	// BrokerRetention is how long after its publication the broker may still deliver a message, including dead letters that
	// are sent again.
	BrokerRetention time.Duration

	// Keep is how long a marker lives, by the database's clock: from the processing of its message on, or from its
	// publication, if that is later. Default: [DefaultKeep], or BrokerRetention if that is longer. Less than BrokerRetention
	// is an error: a message could come again after its marker is gone. Run of the module on the same database deletes
	// markers after that time.
	Keep time.Duration

	// Deadline bounds the processing of one message: later it is rolled back. Default: core.DefaultDeadline.
	Deadline time.Duration

	// Duplicate is called for each message that Process skips because it has been processed before, to count them. Optional.
	Duplicate func(ctx context.Context, m Message)
}

// Inbox lets a consumer process each message once per group: the marker of a message commits in the transaction of the
// rows that its processing writes. It is safe for use by any number of goroutines and processes.
type Inbox struct {
	store     *Store
	cfg       InboxConfig
	owned     sync.Map // sources that have a handler
	validated validated
}

// NewInbox returns an inbox on db, which must have the tables of [Migrate]. If db also gets a store, call New first: the
// inbox then shares SQLite's writer and the connections with the store. An error names everything that is wrong with the
// configuration.
func NewInbox(db *gorm.DB, cfg InboxConfig) (*Inbox, error) {
	if cfg.Keep == 0 {
		cfg.Keep = max(DefaultKeep, cfg.BrokerRetention)
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = core.DefaultDeadline
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("idem: gormstore.NewInbox: %w", err)
	}
	s, err := storeOf(db)
	if err != nil {
		return nil, fmt.Errorf("idem: gormstore.NewInbox: %w", err)
	}
	return &Inbox{store: s, cfg: cfg}, nil
}

func (c InboxConfig) validate() error {
	var errs []error
	if why := badName(c.Group); why != "" {
		errs = append(errs, fmt.Errorf("Group %s: Group is the name of the consumer group", why))
	}
	if c.BrokerRetention <= 0 {
		errs = append(errs, errors.New("BrokerRetention is missing: say how long the broker may deliver a message again"))
	}
	if c.Keep < c.BrokerRetention {
		errs = append(errs, fmt.Errorf("Keep is %s: a marker must live as long as the broker keeps a message, %s",
			c.Keep, c.BrokerRetention))
	}
	if c.Deadline < time.Second {
		errs = append(errs, fmt.Errorf("Deadline is %s: use a second or more", c.Deadline))
	}
	return errors.Join(errs...)
}

// Own makes the caller the one handler of source with this inbox: a marker belongs to a handler. Packages that connect
// the inbox with a broker's library call it when they make a handler. Error: [ErrTwoHandlers] if source has a handler with
// this inbox already.
func (i *Inbox) Own(source string) error {
	if _, taken := i.owned.LoadOrStore(source, struct{}{}); taken {
		return fmt.Errorf("%w: group %q, source %q", ErrTwoHandlers, i.cfg.Group, source)
	}
	return nil
}

// handledBy notices a second handler of the group and source in this process, with any inbox.
func (i *Inbox) handledBy(m Message) error {
	if m.Handler == "" {
		return nil
	}
	first, _ := i.store.handlers.LoadOrStore(stream{i.cfg.Group, m.Source}, m.Handler)
	if first != m.Handler {
		return fmt.Errorf("%w: group %q, source %q, handlers %q and %q", ErrTwoHandlers, i.cfg.Group, m.Source, first, m.Handler)
	}
	return nil
}

// Process runs fn once for a message and consumer group. What fn writes through tx commits together with the message's
// marker, or neither is there. tx.Statement.Context is the context for repositories: [Tx] finds the transaction there,
// and the write guard refuses writes that go past it.
//
// nil means: the message has been processed, now or before. Acknowledge it. fn has run only if the message was processed
// now.
//
// After an error nothing of the message has stayed, with one exception: [core.ErrUnconfirmed] says that the connection was
// lost during COMMIT. In both cases give the message back: the next delivery finds the truth by the marker. After
// [ErrMessageReused], [ErrMessageTooOld], [ErrMessageUnknown] and [ErrMessageInvalid] another delivery would end in the same
// way. Other errors: [ErrMessageBusy]; those of fn; core.ErrRetryable if a statement of fn ran into a conflict, even if fn
// swallowed the error; core.ErrAborted if a statement had failed and fn returned nil; the database's. A panic of fn rolls
// back and goes on.
//
// A message whose ctx ends is rolled back, even if fn does not look at ctx. COMMIT itself is never cancelled.
//
// With the context of a Rollback handler, a [Step] or another inbox, the message joins that transaction. nil then only
// counts once that transaction has committed, and after an error only the message's own rows are undone. In an attempt
// without a transaction (Park, or Resume outside a step) the message is refused with [ErrOutsideTransaction], unless
// [Outside] says that it is meant to stand alone.
func (i *Inbox) Process(ctx context.Context, m Message, fn func(tx *gorm.DB) error) error {
	if err := errors.Join(m.validate(), i.handledBy(m)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.cfg.Deadline, errSlowMessage)
	defer cancel()
	if err := i.validated.once(ctx, i.store, i.store.pool, inboxRights); err != nil {
		return err
	}
	mk := newMarker(i.cfg, m)
	around, err := i.around(ctx)
	if err != nil {
		return err
	}
	handlers, end := core.WithMessage(ctx, mk.id) // calls derive their keys from the message
	defer end()
	if around != nil {
		err = i.join(handlers, around, mk, fn)
	} else {
		err = i.process(handlers, mk, fn)
	}
	if !errors.Is(err, errDuplicate) {
		return err
	}
	if i.cfg.Duplicate != nil {
		i.cfg.Duplicate(ctx, m)
	}
	return nil
}

var (
	errDuplicate   = errors.New("idem: gormstore: the message has been processed before")
	errSlowMessage = fmt.Errorf("idem: gormstore: InboxConfig.Deadline is over: %w", context.DeadlineExceeded)
)
