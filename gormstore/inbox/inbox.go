// Package inbox lets a consumer group process each message once, however often the broker delivers it. For each message
// that it has processed, the inbox has a row: the marker. It commits together with the rows that the processing writes.
//
//	box, err := inbox.New(db, inbox.Config{Group: "stock", BrokerRetention: 7 * 24 * time.Hour})
//	err = box.Process(ctx, inbox.Message{Source: "payments", ID: id, Payload: payload}, func(tx *gorm.DB) error { ... })
//
// It works with any broker, and with the events of webhooks. The module gormstore/watermillidem connects it with
// Watermill. [gormstore.Migrate] makes its tables; core.Module.Run removes old markers. docs/queues.md says what to tell
// the broker after each error.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Errors of [Inbox.Process] that say what to do with a message. After any other error, let the broker deliver the message
// again: see Process.
var (
	// ErrReused: the id came before with another payload. The message is not a duplicate, and was not processed. Send it
	// to the dead letters.
	ErrReused = errors.New("idem: inbox: the message id has been processed with another payload; a publisher " +
		"must give every message its own id")

	// ErrBusy: another delivery of the same message is being processed. Give the message back, with a delay.
	ErrBusy = errors.New("idem: inbox: another delivery of the message is being processed; give it back to the " +
		"broker with a delay")

	// ErrTooOld: the message was published longer ago than a marker lives, and it has no marker. It was not processed
	// now, and may have been processed before. Send it to the dead letters.
	ErrTooOld = errors.New("idem: inbox: the message is older than a marker lives (inbox.Config.Keep), so " +
		"nobody knows whether it has been processed")

	// ErrTwoHandlers: another handler of this process has the same source and group. Each of the two would skip as a
	// duplicate what the other has processed. Between two processes that is not noticed.
	ErrTwoHandlers = errors.New("idem: inbox: two handlers share a consumer group and a source, and each would skip what " +
		"the other has processed; give each handler an inbox with its own Group")

	// ErrUnknown: the handler has ended the inbox's transaction itself, in this delivery or an earlier one. It is not
	// known which of its rows have stayed. Send the message to the dead letters.
	ErrUnknown = errors.New("idem: inbox: nobody knows which of the message's rows have stayed: its handler has " +
		"ended the inbox's transaction itself")

	// ErrTwoMessages: another message is being processed in the same transaction, which was not its own. Process the messages
	// of an attempt, a step or a message one after the other. In a message's handler, pass its tx.Statement.Context.
	ErrTwoMessages = errors.New("idem: inbox: another message is being processed in this transaction; process the " +
		"messages of one transaction one after the other, and inside a message's handler pass tx.Statement.Context")

	// ErrInvalid: the message has no id or no source, or one of them is too long. Send it to the dead letters.
	ErrInvalid = errors.New("idem: inbox: the message cannot be told apart from others")
)

// DefaultKeep is the default of [Config].Keep: how long the marker of a processed message lives.
const DefaultKeep = 30 * 24 * time.Hour

// Config configures an [Inbox]. Group and BrokerRetention are required.
type Config struct {
	// Group is the consumer group: each group processes a message once. 1 to 255 bytes of UTF-8. Renaming a group makes
	// every message new to it.
	Group string

	// BrokerRetention is how long after its publication the broker may still deliver a message, including dead letters that
	// are sent again.
	BrokerRetention time.Duration

	// Keep is how long a marker lives, by the database's clock. The time begins when the message is processed, or at its
	// publication if that is later. Default: [DefaultKeep], or BrokerRetention if that is longer. Less than
	// BrokerRetention is an error: a message could come again after its marker is gone. [core.Module.Run] of a module
	// whose store is in the same database deletes markers after that time.
	Keep time.Duration

	// Deadline is how long the processing of one message may take; then it is rolled back. At least 1 s. Default:
	// store.DefaultDeadline, 60 s.
	Deadline time.Duration

	// MaxClockSkew is how far the database's clock and this process's may be apart (T-5): 1 min to 12 h, default 1 h. While
	// they are further apart, Process hands messages back that were not processed before: store.ErrClock.
	MaxClockSkew time.Duration

	// Duplicate is called for each message that Process skips because it was processed before. Use it to count them.
	// Optional.
	Duplicate func(ctx context.Context, m Message)
}

// Inbox lets a consumer process each message once per group: the marker of a message commits in the transaction of the
// rows that its processing writes. It is safe for use by any number of goroutines and processes.
type Inbox struct {
	db        *txn.Database
	cfg       Config
	owned     sync.Map // sources that have a handler
	validated txn.Validated
}

// New returns an inbox on db, which must have the tables of [gormstore.Migrate], and installs the write guard there. If
// db also gets a store, call gormstore.New first: the inbox then shares the store's schema, its part of the pool, and
// SQLite's one writer.
//
// Errors: one that names everything that is wrong with cfg; those of [gormstore.New], except that no file is locked.
func New(db *gorm.DB, cfg Config) (*Inbox, error) {
	if cfg.Keep == 0 {
		cfg.Keep = max(DefaultKeep, cfg.BrokerRetention)
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = store.DefaultDeadline
	}
	if cfg.MaxClockSkew == 0 {
		cfg.MaxClockSkew = txn.DefaultClockSkew
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("idem: inbox.New: %w", err)
	}
	d, err := txn.Of(db, gormstore.WriteGuard())
	if err != nil {
		return nil, fmt.Errorf("idem: inbox.New: %w", err)
	}
	return &Inbox{db: d, cfg: cfg}, nil
}

func (c Config) validate() error {
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
	if err := txn.CheckClockSkew(c.MaxClockSkew); err != nil {
		errs = append(errs, err)
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

// handledBy returns an error if the group and source have another handler in this process, with any inbox.
func (i *Inbox) handledBy(m Message) error {
	if m.Handler == "" {
		return nil
	}
	first, _ := i.db.Handlers.LoadOrStore([2]string{i.cfg.Group, m.Source}, m.Handler)
	if first != m.Handler {
		return fmt.Errorf("%w: group %q, source %q, handlers %q and %q", ErrTwoHandlers, i.cfg.Group, m.Source, first, m.Handler)
	}
	return nil
}

// Process runs fn once for a message and consumer group. What fn writes through tx commits together with the message's
// marker, or neither is there. tx.Statement.Context is the context for repositories: [gormstore.Tx] finds the transaction
// there, and the write guard refuses writes that go past it.
//
// nil means that the message was processed, now or before: acknowledge it. fn ran only if it was processed now.
//
// After an error nothing of the message is stored, with two exceptions. [store.ErrUnconfirmed]: the connection was lost
// during COMMIT. [ErrUnknown]: fn has ended the transaction itself. After [ErrReused], [ErrTooOld], [ErrUnknown] and
// [ErrInvalid], another delivery would end in the same way. After any other error give the message back: the next
// delivery finds the marker, or not. Other errors: [ErrBusy]; store.ErrClock; [ErrTwoHandlers]; [ErrTwoMessages]; fn's;
// store.ErrRetryable if a statement of fn met a conflict, even if fn swallowed the error; store.ErrAborted if a statement
// failed on PostgreSQL and fn returned nil (on SQLite the rest commits); those of [Inbox.Validate]; errors of the database.
// After a panic of fn the message is rolled back, and the panic continues.
//
// A message whose ctx ends is rolled back, even if fn does not look at ctx. COMMIT itself is never cancelled.
//
// With the context of a Rollback handler, a [gormstore.Step] or another inbox, the message joins that transaction. Then
// the message is processed only when that transaction has committed, and after an error only the message's own rows are
// undone. Messages join one after the other. A transaction that ends while a message is still being processed is rolled
// back. In an attempt without a transaction (Park, or Resume outside a step), and in a transaction of another database,
// the error is [gormstore.ErrOutsideTransaction]. With [gormstore.Outside] the message gets a transaction of its own
// there.
func (i *Inbox) Process(ctx context.Context, m Message, fn func(tx *gorm.DB) error) error {
	if err := errors.Join(m.validate(), i.handledBy(m)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.cfg.Deadline, errSlowMessage)
	defer cancel()
	if err := i.validated.Once(ctx, i.db, rights, i.db.Beside(i.try)); err != nil {
		return err
	}
	mk := i.marker(m)
	around, err := i.around(ctx)
	if err != nil {
		return err
	}
	ctx = txn.NotOutside(ctx)                                 // it was said of the message, and not of what fn writes
	handlers, end := core.WithMessage(ctx, mk.id, mk.payload) // calls derive their keys from the message
	defer end()
	if around != nil {
		err = i.join(handlers, around, mk, fn)
	} else {
		err = i.process(handlers, mk, fn)
	}
	if !errors.As(err, &duplicate{}) {
		return err
	}
	if i.cfg.Duplicate != nil {
		i.cfg.Duplicate(ctx, m)
	}
	return nil
}

var errSlowMessage = fmt.Errorf("idem: inbox.Config.Deadline is over: %w", context.DeadlineExceeded)

// Message is one delivery of a message.
type Message struct {
	// Source is the publisher or topic within which the id is unique. 1 to 255 bytes of UTF-8.
	Source string

	// ID is the publisher's id of the message, the same in every delivery. 1 to 255 bytes of UTF-8.
	ID string

	// Payload is compared by its SHA-256: the same id with another payload is an error, never a duplicate.
	Payload []byte

	// Handler is the name of the handler that processes the message, if the broker's library knows it. If another handler in
	// the same process has the same group and source, Process returns [ErrTwoHandlers]. Optional.
	Handler string

	// Published is when the message was published, by the publisher's clock. Zero if it is not known: then Process cannot
	// refuse a message that is older than markers live.
	Published time.Time
}

// maxName is the longest part of a marker's key, in bytes.
const maxName = 255

// badName returns what is wrong with a part of a marker's key; "" if it is valid.
func badName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return fmt.Sprintf("has %d bytes of at most %d", len(name), maxName)
	case !utf8.ValidString(name), strings.ContainsRune(name, 0):
		return "is not valid UTF-8, or has a zero byte"
	}
	return ""
}

func (m Message) validate() error {
	var errs []error
	if why := badName(m.ID); why != "" {
		errs = append(errs, fmt.Errorf("ID %s", why))
	}
	if why := badName(m.Source); why != "" {
		errs = append(errs, fmt.Errorf("Source %s", why))
	}
	if year := m.Published.Year(); year < 1 || year > 9999 {
		errs = append(errs, fmt.Errorf("Published is in the year %d", year))
	}
	if errs != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(errs...))
	}
	return nil
}

// rights are those of a consumer. It may have to write a marker again that was undone (loseMarker), and it raises the
// floor when it refuses a message that is too old (raiseFloor).
var rights = txn.Rights{
	"processed_message":       "SELECT, INSERT, UPDATE",
	"processed_message_floor": "SELECT, INSERT, UPDATE",
}

// Validate checks that the server and the tables keep what the inbox confirms, and that the role has the rights that a
// consumer needs: without UPDATE it could never acknowledge a duplicate (F-5). One error names everything that is wrong.
// Call it when the consumer starts; Process refuses what Validate refuses.
func (i *Inbox) Validate(ctx context.Context) error {
	return i.validated.Validate(ctx, i.db, rights, i.db.Beside(i.try))
}
