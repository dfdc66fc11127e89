package watermillidem

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

// ForwarderConfig says how a forwarder brings events from the outbox to another broker. All fields but Router and Tries
// are required.
type ForwarderConfig struct {
	// Topic is the outbox: that of forwarder.PublisherConfig.ForwarderTopic.
	Topic string

	// Dead and DeadTopic are where an event goes that the broker does not take, in its envelope: best a table of the same
	// database, which is there whenever the outbox is. A forwarder with DeadTopic as its Topic sends them again.
	Dead      message.Publisher
	DeadTopic string

	// Alive reports whether the broker answers: nil if it does. An event that fails goes to the dead letters only then; a
	// broker that is away buries nothing.
	Alive func(ctx context.Context) error

	// Tries is how often an event fails, while the broker answers, before it is buried. The subscriber's ResendInterval is
	// between them. Default: 5.
	Tries int

	// Router runs the forwarder, as in forwarder.Config. Default: one of its own.
	Router *message.Router
}

// NewForwarder returns Watermill's forwarder from the outbox in db to out, at least once, with three promises more.
// in is a subscriber of watermill-sql on db, whose AckDeadline is longer than the broker takes to refuse an event.
//
// An event is forwarded only after its COMMIT is confirmed: where the server has a synchronous standby, a write of the
// forwarder's own is waited for. It takes a second connection of db for a moment. One event that cannot be forwarded does
// not stop the others: after Tries it goes to the dead letters, if the broker answers otherwise. And an event is
// forwarded under its own id, so that an inbox behind the broker knows it.
//
// The error names everything that is missing in the configuration.
func NewForwarder(
	db *gorm.DB, in message.Subscriber, out message.Publisher, log watermill.LoggerAdapter, cfg ForwarderConfig,
) (*forwarder.Forwarder, error) {
	if cfg.Tries == 0 {
		cfg.Tries = 5
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("idem: watermillidem.NewForwarder: %w", err)
	}
	f := &forwarding{ForwarderConfig: cfg, db: db}
	return forwarder.NewForwarder(in, out, log, forwarder.Config{
		ForwarderTopic: cfg.Topic, Router: cfg.Router,
		Middlewares: []message.HandlerMiddleware{f.middleware, middleware.Recoverer},
	})
}

func (c ForwarderConfig) validate() error {
	var errs []error
	if c.Topic == "" {
		errs = append(errs, errors.New("Topic is missing: the topic of the outbox"))
	}
	if c.Dead == nil || c.DeadTopic == "" {
		errs = append(errs, errors.New("Dead or DeadTopic is missing: where an event goes that the broker does not take"))
	}
	if c.Alive == nil {
		errs = append(errs, errors.New("Alive is missing: a function that asks the broker whether it answers"))
	}
	if c.Tries < 0 {
		errs = append(errs, fmt.Errorf("Tries is %d", c.Tries))
	}
	return errors.Join(errs...)
}

// forwarding is a ForwarderConfig at work.
type forwarding struct {
	ForwarderConfig
	db     *gorm.DB
	failed sync.Map // id of an envelope -> how often it has failed
}

func (f *forwarding) middleware(send message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx := msg.Context()
		if err := f.confirm(ctx); err != nil {
			return nil, fmt.Errorf("idem: watermillidem: an event is not forwarded before its COMMIT is confirmed: %w", err)
		}
		_, err := send(msg)
		if err != nil {
			err = f.failedToSend(ctx, msg, err)
		}
		if err == nil {
			f.failed.Delete(msg.UUID)
		}
		return nil, err
	}
}

// failedToSend buries an event that has failed too often. What fails while the broker is away does not count.
func (f *forwarding) failedToSend(ctx context.Context, msg *message.Message, reason error) error {
	if away := f.Alive(ctx); away != nil {
		f.failed.Delete(msg.UUID)
		return errors.Join(reason, away)
	}
	before, _ := f.failed.LoadOrStore(msg.UUID, 0)
	times := before.(int) + 1
	f.failed.Store(msg.UUID, times)
	if times < f.Tries {
		return reason
	}
	return f.bury(msg, reason)
}

// bury brings an event to the dead letters, with the reason.
func (f *forwarding) bury(msg *message.Message, reason error) error {
	dead := msg.Copy()
	dead.SetContext(msg.Context())
	dead.Metadata.Set(middleware.ReasonForPoisonedKey, reason.Error())
	dead.Metadata.Set(middleware.PoisonedTopicKey, f.Topic)
	if err := f.Dead.Publish(f.DeadTopic, dead); err != nil {
		return errors.Join(reason, fmt.Errorf("idem: watermillidem: bury an event: %w", err))
	}
	return nil
}

// confirm waits until everything that the subscriber has seen is confirmed. Its transaction is on the server that the
// event was read from.
func (f *forwarding) confirm(ctx context.Context) error {
	if f.db.Name() != "postgres" {
		return nil
	}
	tx, ok := wsql.TxFromContext(ctx)
	if !ok {
		return errors.New("the event comes from no subscriber of watermill-sql")
	}
	started, err := waitsSince(ctx, tx)
	if err != nil || !started.Valid {
		return err
	}
	return gormstore.Confirm(ctx, f.db, started.Time)
}

// waitsSince asks when the server was started; NULL where it has no synchronous standby to wait for.
func waitsSince(ctx context.Context, tx wsql.Tx) (started sql.NullTime, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT CASE WHEN current_setting('synchronous_standby_names', true) <> ''
	THEN pg_postmaster_start_time() END`)
	if err != nil {
		return started, err
	}
	if !rows.Next() {
		return started, errors.Join(errors.New("the server has not said whether it has a standby"), rows.Close())
	}
	return started, errors.Join(rows.Scan(&started), rows.Close())
}
