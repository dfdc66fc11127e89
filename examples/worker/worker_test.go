package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/watermillidem"
)

// CONTRACT Q-1
func TestDuplicatesAreSkipped(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		var deliveries atomic.Int64
		p.start(t, counting(&deliveries))
		first, second := paid(t, "pay_1"), paid(t, "pay_2")
		p.publish(t, first, second, first)
		p.publish(t, first)
		eventually(t, "all are acknowledged", func() bool { return deliveries.Load() >= 4 && p.backlog(t) == 0 })
		require.EqualValues(t, 2, p.taken(t))
		require.Equal(t, map[string]int{"pay_1": 1, "pay_2": 1}, p.mails(t))
		require.Empty(t, p.buried(t))
	})
}

// CONTRACT Q-1
func TestAckThatIsLost(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		var deliveries atomic.Int64
		p.start(t, counting(&deliveries), func(next message.HandlerFunc) message.HandlerFunc {
			return func(m *message.Message) ([]*message.Message, error) {
				out, err := next(m)
				if err == nil && deliveries.Load() == 1 {
					err = errors.New("handled, and given back to the broker all the same")
				}
				return out, err
			}
		})
		p.publish(t, paid(t, "pay_1"))
		eventually(t, "it came twice", func() bool { return deliveries.Load() >= 2 && p.backlog(t) == 0 })
		require.EqualValues(t, 1, p.taken(t))
		require.Equal(t, map[string]int{"pay_1": 1}, p.mails(t))
	})
}

// CONTRACT Q-1
func TestPoisonDoesNotBlock(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		known := paid(t, "pay_1")
		reused := message.NewMessage(known.UUID, message.Payload(`{"payment_id":"pay_other"}`))
		old := paid(t, "pay_old")
		old.Metadata.Set(watermillidem.PublishedAt, time.Now().Add(-2*gormstore.DefaultKeep).Format(time.RFC3339Nano))
		nobody := paid(t, "pay_nobody")
		nobody.UUID = ""
		broken := paid(t, "pay_panic")
		require.NoError(t, p.db.Callback().Create().Before("gorm:create").Register("test:panic", func(tx *gorm.DB) {
			if mail, ok := tx.Statement.Dest.(*Mail); ok && mail.PaymentID == "pay_panic" {
				panic("after the piece was taken")
			}
		}))
		p.start(t)
		p.publish(t, known, event([]byte(`{"payment_id":""}`)), event([]byte(`"no event"`)), reused, old, nobody,
			broken, paid(t, "pay_2"))
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
			`{"payment_id":"pay_other"}`: gormstore.ErrMessageReused.Error(),
			string(old.Payload):          gormstore.ErrMessageTooOld.Error(),
			string(nobody.Payload):       gormstore.ErrMessageInvalid.Error(),
			string(broken.Payload):       "after the piece was taken",
		} {
			require.Contains(t, why[payload], reason, payload)
		}
	})
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
	everywhere(t, func(t *testing.T, p *place) {
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
	everywhere(t, func(t *testing.T, p *place) {
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
	everywhere(t, func(t *testing.T, p *place) {
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

// CONTRACT Q-2
func TestEventIsOutOnlyWithItsRows(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		p.start(t)
		err := p.db.Transaction(func(tx *gorm.DB) error {
			ctx := gormstore.WithTx(t.Context(), tx)
			require.NoError(t, p.side.publish(ctx, paid(t, "pay_undone")))
			return gorm.ErrInvalidTransaction
		})
		require.ErrorIs(t, err, gorm.ErrInvalidTransaction)
		p.publish(t, paid(t, "pay_1"))
		eventually(t, "it is acknowledged", func() bool { return p.taken(t) == 1 && p.backlog(t) == 0 })
		require.Equal(t, map[string]int{"pay_1": 1}, p.mails(t))
		require.ErrorIs(t, p.side.publish(t.Context(), paid(t, "pay_2")), watermillidem.ErrNoTransaction)
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
