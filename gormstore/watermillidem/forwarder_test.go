package watermillidem_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/watermillidem"
	"github.com/auth19/idem/internal/pgtest"
)

// outbox is the topic of a forwarder, graves that of its dead letters.
const (
	outbox = "outbox"
	graves = "outbox_dead"
)

// otherBroker is a broker that refuses some events.
type otherBroker struct {
	mu      sync.Mutex
	taken   []string
	tried   map[string]int // how often it was given an event
	refuses func(event *message.Message) error
	asked   atomic.Int32 // how often whether it is there
	away    atomic.Bool
}

var errAway = errors.New("the broker is away")

// Publish implements [message.Publisher].
func (o *otherBroker) Publish(_ string, events ...*message.Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, event := range events {
		if o.away.Load() {
			return errAway
		}
		if o.tried == nil {
			o.tried = map[string]int{}
		}
		o.tried[string(event.Payload)]++
		if o.refuses != nil {
			if err := o.refuses(event); err != nil {
				return err
			}
		}
		o.taken = append(o.taken, string(event.Payload))
	}
	return nil
}

// Close implements [message.Publisher].
func (*otherBroker) Close() error { return nil }

func (o *otherBroker) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.taken...)
}

func (o *otherBroker) alive(context.Context) error {
	o.asked.Add(1)
	if o.away.Load() {
		return errAway
	}
	return nil
}

// enqueue puts events into the outbox, each in a transaction of its own.
func (b *bench) enqueue(payloads ...string) {
	b.Helper()
	for _, payload := range payloads {
		require.NoError(b, b.db.Transaction(func(tx *gorm.DB) error {
			publisher, err := watermillidem.Publisher(gormstore.WithTx(b.Context(), tx), b.schema)
			require.NoError(b, err)
			publisher = forwarder.NewPublisher(publisher, forwarder.PublisherConfig{ForwarderTopic: outbox})
			return publisher.Publish(topic, watermillidem.EventOf(core.ID{}, payload, []byte(payload)))
		}))
	}
}

// forward runs a forwarder from the outbox to a broker; db is what it confirms on.
func (b *bench) forward(db *gorm.DB, to *otherBroker, dead message.Publisher) {
	b.Helper()
	in := b.subscriber("forwarder")
	b.route(func(r *message.Router) {
		_, err := watermillidem.NewForwarder(db, in, to, watermill.NopLogger{}, watermillidem.ForwarderConfig{
			Topic: outbox, Router: r, Dead: dead, DeadTopic: graves, Alive: to.alive, Tries: 2,
		})
		require.NoError(b, err)
	})
}

// One event that the broker never takes goes to the dead letters, and the others go on.
//
// CONTRACT Q-5
func TestForwarderBuriesWhatTheBrokerRefuses(t *testing.T) {
	each(t, func(b *bench) {
		b.enqueue(`"one"`, `"refused"`, `"panics"`, `"two"`)
		to := &otherBroker{refuses: func(event *message.Message) error {
			switch string(event.Payload) {
			case `"refused"`:
				return errors.New("too large")
			case `"panics"`:
				panic("on purpose")
			}
			return nil
		}}
		var dead letters
		b.forward(b.db, to, publishing(dead.handle))
		b.eventually("the others are through", func() bool { return len(to.all()) == 2 })
		require.Equal(b, []string{`"one"`, `"two"`}, to.all())
		require.Len(b, dead.all(), 2)
		require.Equal(b, map[string]int{`"one"`: 1, `"refused"`: 2, `"panics"`: 2, `"two"`: 1}, to.tried)
	})
}

// A broker that is away buries nothing: the events wait.
//
// CONTRACT Q-5
func TestForwarderWaitsForTheBroker(t *testing.T) {
	each(t, func(b *bench) {
		to := &otherBroker{}
		to.away.Store(true)
		var dead letters
		b.enqueue(`"one"`, `"two"`)
		b.forward(b.db, to, publishing(dead.handle))
		b.eventually("the broker was asked for", func() bool { return to.asked.Load() >= 3 })
		require.Empty(b, dead.all())
		to.away.Store(false)
		b.eventually("both are through", func() bool { return len(to.all()) == 2 })
		require.Equal(b, []string{`"one"`, `"two"`}, to.all())
	})
}

// Dead letters that cannot be written are no dead letters: the event stays where it is.
//
// CONTRACT Q-5
func TestForwarderKeepsWhatItCannotBury(t *testing.T) {
	each(t, func(b *bench) {
		b.enqueue(`"refused"`)
		to := &otherBroker{refuses: func(*message.Message) error { return errors.New("too large") }}
		var dead letters
		tries := make(chan struct{}, 1000)
		var works atomic.Bool
		b.forward(b.db, to, publishing(func(msg *message.Message) error {
			tries <- struct{}{}
			if !works.Load() {
				return errors.New("no room")
			}
			return dead.handle(msg)
		}))
		<-tries
		<-tries
		require.Empty(b, dead.all())
		works.Store(true)
		b.eventually("it is buried", func() bool { return len(dead.all()) == 1 })
	})
}

// What can be seen is not on the standby yet, because somebody kept its COMMIT from waiting. It is not forwarded: the
// world would know of a payment that a failover loses.
//
// CONTRACT Q-5, F-2
func TestForwarderWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t, "synchronous_standby_names=missing", "synchronous_commit=local")
	b := onPostgresAt(t, cluster.URL())
	b.enqueue(`"one"`, `"two"`)
	waits, err := gorm.Open(postgres.Open(cluster.URL()+"&synchronous_commit=on"), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := waits.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	to := &otherBroker{}
	b.forward(waits, to, publishing(new(letters).handle))
	requireWaits := func(why string) {
		b.eventually(why, func() bool {
			var waiting int64
			require.NoError(t, b.db.Raw("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&waiting).Error)
			return waiting > 0 || len(to.all()) > 0
		})
		require.Empty(t, to.all(), why)
	}
	requireWaits("the forwarder waits for the standby")
	require.NoError(t, b.db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Error)
	requireWaits("a wait that was cut short confirms nothing")
	cluster.Exec("ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
	b.eventually("both are through", func() bool { return len(to.all()) == 2 })
}

// An event from a server that is another one by now is read again.
//
// CONTRACT Q-5, F-2
func TestConfirmOnAnotherServer(t *testing.T) {
	each(t, func(b *bench) {
		err := gormstore.Confirm(b.Context(), b.db, b.started().Add(-1))
		if b.db.Name() == "sqlite" {
			require.NoError(b, err)
			return
		}
		require.ErrorIs(b, err, gormstore.ErrAnotherServer)
		require.NoError(b, gormstore.Confirm(b.Context(), b.db, b.started()))
	})
}

func TestForwarderConfig(t *testing.T) {
	t.Parallel()
	b := onSQLite(t)
	_, err := watermillidem.NewForwarder(b.db, b.subscriber("f"), &otherBroker{}, nil, watermillidem.ForwarderConfig{Tries: -1})
	for _, missing := range []string{"Topic is missing", "Dead or DeadTopic", "Alive is missing", "Tries is " + strconv.Itoa(-1)} {
		require.ErrorContains(t, err, missing)
	}
}
