package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/gormstore/watermillidem"
	"github.com/auth19/idem/internal/pgtest"
)

// CONTRACT Q-1
func TestPoisonDoesNotBlock(t *testing.T) {
	everywhere(t, func(t *testing.T, p *env) {
		known := paid(t, "pay_1")
		reused := message.NewMessage(known.UUID, message.Payload(`{"payment_id":"pay_other"}`))
		old := paid(t, "pay_old")
		old.Metadata.Set(watermillidem.PublishedAt, time.Now().Add(-2*inbox.DefaultKeep).Format(time.RFC3339Nano))
		anonymous := paid(t, "pay_nobody")
		anonymous.UUID = ""
		failing := paid(t, "pay_panic")
		require.NoError(t, p.db.Callback().Create().Before("gorm:create").Register("test:panic", func(tx *gorm.DB) {
			if mail, ok := tx.Statement.Dest.(*Mail); ok && mail.PaymentID == "pay_panic" {
				panic("after the piece was taken")
			}
		}))
		p.start(t)
		p.publish(t, known, event([]byte(`{"payment_id":""}`)), event([]byte(`"no event"`)), reused, old, anonymous,
			failing, paid(t, "pay_2"))
		eventually(t, "all are acknowledged", func() bool { return len(p.mails(t)) == 2 && p.backlog(t) == 0 })

		require.EqualValues(t, 2, p.taken(t))
		require.Equal(t, map[string]int{"pay_1": 1, "pay_2": 1}, p.mails(t))
		why := map[string]string{}
		for _, l := range p.buried(t) {
			why[l.payload] = l.reason
		}
		require.Len(t, why, 6)
		for payload, reason := range map[string]string{
			`{"payment_id":""}`:          errMalformed.Error(),
			`"no event"`:                 errMalformed.Error(),
			`{"payment_id":"pay_other"}`: inbox.ErrReused.Error(),
			string(old.Payload):          inbox.ErrTooOld.Error(),
			string(anonymous.Payload):    inbox.ErrInvalid.Error(),
			string(failing.Payload):      "after the piece was taken",
		} {
			require.Contains(t, why[payload], reason, payload)
		}
	})
}

// A database that cannot be written is not the message's fault: nothing is buried, and everything is handled later.
//
// CONTRACT Q-1
func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	p := newPlace(t, pgtest.URL(t), startNATS(t))
	var database string
	require.NoError(t, p.db.Raw("SELECT current_database()").Scan(&database).Error)
	admin := openAt(t, p.url+"&default_transaction_read_only=off")
	readOnly := func(value string) {
		t.Helper()
		require.NoError(t, admin.Exec(fmt.Sprintf("ALTER DATABASE %q SET default_transaction_read_only = %s", database, value)).Error)
		require.NoError(t, admin.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
			"WHERE datname = current_database() AND pid <> pg_backend_pid()").Error)
	}
	var deliveries atomic.Int64
	p.start(t, counting(&deliveries))
	p.publish(t, paid(t, "pay_before"))
	eventually(t, "the worker works", func() bool { return p.taken(t) == 1 && p.backlog(t) == 0 })
	deliveries.Store(0)
	readOnly("on")
	const n = 5
	for i := range n {
		require.NoError(t, p.side.dead.Publish(captured, paid(t, fmt.Sprintf("pay_%d", i)))) // at the broker
	}
	eventually(t, "all came twice", func() bool { return deliveries.Load() >= 2*n })
	require.Empty(t, p.buried(t))
	readOnly("off")
	eventually(t, "all are handled", func() bool {
		var mails int64
		return p.db.Model(&Mail{}).Count(&mails).Error == nil && mails == n+1
	})
	eventually(t, "all are acknowledged", func() bool { return p.backlog(t) == 0 })
	require.EqualValues(t, n+1, p.taken(t))
	require.Empty(t, p.buried(t))
}

// CONTRACT Q-1
func TestWhoseFault(t *testing.T) {
	t.Parallel()
	db := openAt(t, pgtest.URL(t))
	for state, poison := range map[string]bool{
		"25006": false, "42501": false, "42P01": false, "53100": false, "57P03": false, "08006": false, "58030": false,
		"40001": false, "28000": false, "23505": true, "22003": true, "P0001": true,
	} {
		err := db.Exec(fmt.Sprintf("DO $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '%s'; END $$", state)).Error
		require.Error(t, err)
		require.Equal(t, poison, poisonous(err), state)
	}
	for _, code := range []sqliteError{5, 8, 10, 13, 10 | 1<<8} { // busy, read-only, input or output, full; short read
		require.False(t, poisonous(fmt.Errorf("wrapped: %w", code)), code)
	}
	require.True(t, poisonous(sqliteError(19)), "a constraint")
	require.False(t, poisonous(fmt.Errorf("%w: %w", store.ErrCrowded, context.DeadlineExceeded)), "a busy pool")
	require.True(t, poisonous(context.DeadlineExceeded), "a handler that hangs")
}

// sqliteError is an error as the drivers of SQLite make them.
type sqliteError int

func (e sqliteError) Error() string { return fmt.Sprint("SQLite: ", int(e)) }
func (e sqliteError) Code() int     { return int(e) }

// One event that the broker does not take goes to the dead letters of the outbox, and the others go on.
//
// CONTRACT Q-5
func TestEventThatTheBrokerRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t, pgtest.URL(t), startNATS(t))
	p.redeliver = 30 * time.Second // longer than a busy broker takes to refuse an event
	p.start(t)
	large := paid(t, "pay_large")
	large.Payload = append(large.Payload, bytes.Repeat([]byte(" "), 1<<20)...) // NATS takes 1 MiB with the headers
	require.NoError(t, p.db.Transaction(func(tx *gorm.DB) error {
		ctx := gormstore.WithTx(t.Context(), tx)
		publisher, err := watermillidem.Publisher(ctx, p.side.schema, watermillidem.MaxEvent(4<<20))
		require.NoError(t, err)
		large.SetContext(ctx)
		return forwarder.NewPublisher(publisher, forwarder.PublisherConfig{ForwarderTopic: outbox}).Publish(captured, large)
	}))
	p.publish(t, paid(t, "pay_1"))
	eventually(t, "the other is handled", func() bool { return p.taken(t) == 1 && p.backlog(t) == 0 })
	var reasons []string
	require.NoError(t, p.db.Raw(`SELECT metadata ->> 'reason_poisoned' FROM "watermill_outbox_dead"`).Scan(&reasons).Error)
	require.Len(t, reasons, 1)
	require.Contains(t, reasons[0], nats.ErrMaxPayload.Error())
}

// CONTRACT Q-1
func TestHandlerThatHangs(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "sqlite:"+filepath.Join(t.TempDir(), "worker.db"), "")
	p.redeliver = 30 * time.Second
	require.NoError(t, p.db.Callback().Create().Before("gorm:create").Register("test:hang", func(tx *gorm.DB) {
		if mail, ok := tx.Statement.Dest.(*Mail); ok && mail.PaymentID == "pay_hangs" {
			<-tx.Statement.Context.Done()
		}
	}))
	p.start(t)
	p.publish(t, paid(t, "pay_hangs"), paid(t, "pay_1"))
	eventually(t, "all are acknowledged", func() bool { return p.backlog(t) == 0 })
	require.EqualValues(t, 1, p.taken(t))
	require.Equal(t, map[string]int{"pay_1": 1}, p.mails(t))
	require.Len(t, p.buried(t), 1)
}

// CONTRACT Q-1
func TestMessageInFlightEndsFirst(t *testing.T) {
	everywhere(t, func(t *testing.T, p *env) {
		reached, goOn := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.db.Callback().Create().Before("gorm:create").Register("test:hold", func(tx *gorm.DB) {
			if _, ok := tx.Statement.Dest.(*Mail); ok && reached != nil {
				close(reached)
				reached = nil
				<-goOn
			}
		}))
		held := reached
		stop := p.start(t)
		p.publish(t, paid(t, "pay_1"))
		<-held
		stopped := make(chan struct{})
		go func() {
			stop()
			close(stopped)
		}()
		select {
		case <-stopped:
			t.Fatal("the worker has not waited for the message")
		case <-time.After(500 * time.Millisecond): // it could have ended in this time
		}
		close(goOn)
		<-stopped
		require.EqualValues(t, 1, p.taken(t))

		p.start(t) // what could not be acknowledged any more comes again
		p.publish(t, paid(t, "pay_2"))
		eventually(t, "all are acknowledged", func() bool { return p.taken(t) == 2 && p.backlog(t) == 0 })
		require.Equal(t, map[string]int{"pay_1": 1, "pay_2": 1}, p.mails(t))
	})
}

// CONTRACT Q-1
func TestSlowFailureComesAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, p *env) {
		var deliveries atomic.Int64
		p.start(t, counting(&deliveries), func(next message.HandlerFunc) message.HandlerFunc {
			return func(m *message.Message) ([]*message.Message, error) {
				if deliveries.Load() > 1 {
					return next(m)
				}
				time.Sleep(redeliver + redeliver/2) // the broker does not wait so long
				return nil, errors.New("not handled")
			}
		})
		p.publish(t, paid(t, "pay_1"))
		eventually(t, "it is handled", func() bool { return p.taken(t) > 0 && p.backlog(t) == 0 })
		require.EqualValues(t, 1, p.taken(t))
	})
}

// CONTRACT Q-1
func TestStoppedWorkerKeepsItsPlace(t *testing.T) {
	everywhere(t, func(t *testing.T, p *env) {
		const n = 40
		var events []*message.Message
		for i := range n {
			events = append(events, paid(t, fmt.Sprintf("pay_%d", i)))
		}
		p.publish(t, events...)
		stop := p.start(t)
		eventually(t, "one is handled", func() bool { return p.taken(t) > 0 })
		stop() // the broker has sent it more
		stop = p.start(t)
		eventually(t, "all are acknowledged", func() bool { return p.backlog(t) == 0 })
		require.EqualValues(t, n, p.taken(t))
		require.Len(t, p.mails(t), n)
		stop()

		var deliveries atomic.Int64
		p.start(t, counting(&deliveries))
		p.publish(t, paid(t, "pay_new"))
		eventually(t, "it is acknowledged", func() bool { return p.taken(t) == n+1 && p.backlog(t) == 0 })
		require.EqualValues(t, 1, deliveries.Load(), "what was acknowledged has come again")
	})
}

func TestUnknownBroker(t *testing.T) {
	_, err := openBroker(settings{broker: "kafka"}, newPlace(t, "sqlite:"+t.TempDir()+"/a.db", "").db, nil)
	require.ErrorContains(t, err, "-broker kafka")
}

// counting counts deliveries.
func counting(n *atomic.Int64) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) {
			n.Add(1)
			return next(m)
		}
	}
}
