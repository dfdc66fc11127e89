package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/watermillidem"
	"github.com/auth19/idem/internal/pgtest"
)

// redeliver is short, so that nobody waits long for what a killed worker had in hand.
const redeliver = time.Second

// env is a database and a broker of a test.
type env struct {
	settings
	url  string // DATABASE_URL
	db   *gorm.DB
	side *broker // the test's own hold of the broker, to publish
}

// everywhere runs a test on all brokers, and on the embedded default.
func everywhere(t *testing.T, test func(t *testing.T, p *env)) {
	for name, fresh := range map[string]func(t *testing.T) *env{
		"sqlite":        func(t *testing.T) *env { return newPlace(t, "sqlite:"+filepath.Join(t.TempDir(), "worker.db"), "") },
		"postgres":      func(t *testing.T) *env { return newPlace(t, pgtest.URL(t), "") },
		"postgres-nats": func(t *testing.T) *env { return newPlace(t, pgtest.URL(t), startNATS(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

func newPlace(t *testing.T, databaseURL, natsURL string) *env {
	t.Helper()
	p := &env{settings: settings{broker: "sql", natsURL: natsURL, redeliver: redeliver}, url: databaseURL}
	if natsURL != "" {
		p.broker = "nats"
	}
	p.db = openAt(t, databaseURL)
	store, err := gormstore.New(p.db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, gormstore.Migrate(t.Context(), p.db))
	require.NoError(t, migrate(t.Context(), p.db))
	p.side, err = openBroker(p.settings, p.db, watermill.NopLogger{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.side.close()) })
	return p
}

func openAt(t *testing.T, databaseURL string) *gorm.DB {
	t.Helper()
	address, err := database.Parse(databaseURL)
	require.NoError(t, err)
	db, err := address.Open(t.Context(), 12)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, database.Close(db)) })
	return db
}

// startNATS starts a NATS server with JetStream, and returns its address.
func startNATS(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		eventually(t, "clients have gone", func() bool { return s.NumClients() == 0 }) // Close does not wait for that
		s.Shutdown()
		s.WaitForShutdown()
	})
	require.True(t, s.ReadyForConnections(10*time.Second))
	return s.ClientURL()
}

// start runs a worker until the test ends, or until stop is called; stop returns when the worker has ended.
func (p *env) start(t *testing.T, around ...message.HandlerMiddleware) (stop func()) {
	t.Helper()
	log := watermill.NewSlogLogger(slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	b, err := openBroker(p.settings, p.db, log)
	require.NoError(t, err)
	w, err := newWorker(t.Context(), p.db, b, log, around...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, b.close())
	})
	t.Cleanup(stop)
	return stop
}

// paid makes the event of a payment.
func paid(t *testing.T, paymentID string) *message.Message {
	t.Helper()
	payload, err := json.Marshal(PaymentCaptured{PaymentID: paymentID, OrderID: "o-1", Amount: "12.50", Currency: "EUR"})
	require.NoError(t, err)
	return event(payload)
}

func event(payload []byte) *message.Message {
	var operation core.ID
	_, _ = rand.Read(operation[:])
	return watermillidem.EventOf(operation, captured, payload)
}

// publish publishes events in one transaction, as the app does.
func (p *env) publish(t testing.TB, events ...*message.Message) {
	t.Helper()
	require.NoError(t, p.db.Transaction(func(tx *gorm.DB) error {
		ctx := gormstore.WithTx(t.Context(), tx)
		for _, e := range events {
			e.SetContext(ctx)
			if err := p.side.publish(ctx, e); err != nil {
				return err
			}
		}
		return nil
	}))
}

// taken is how many pieces are gone from the warehouse.
func (p *env) taken(t testing.TB) int64 {
	t.Helper()
	var s Stock
	require.NoError(t, p.db.Take(&s).Error)
	return piecesAtStart - s.Pieces
}

// mails counts the mails of each payment.
func (p *env) mails(t testing.TB) map[string]int {
	t.Helper()
	var lines []Mail
	require.NoError(t, p.db.Find(&lines).Error)
	count := map[string]int{}
	for _, line := range lines {
		count[line.PaymentID]++
	}
	return count
}

// backlog is how many messages are still to be acknowledged by the worker.
func (p *env) backlog(t testing.TB) int {
	t.Helper()
	if p.broker == "sql" {
		return p.behind(t, captured)
	}
	conn, err := nats.Connect(p.natsURL)
	require.NoError(t, err)
	defer conn.Close()
	js, err := conn.JetStream()
	require.NoError(t, err)
	consumer, err := js.ConsumerInfo(captured, group)
	require.NoError(t, err)
	return p.behind(t, outbox) + int(consumer.NumPending) + consumer.NumAckPending
}

// behind is how many messages of a table the group has not acknowledged.
func (p *env) behind(t testing.TB, topic string) (n int) {
	t.Helper()
	after := `(m.transaction_id, m."offset") > (o.last_processed_transaction_id, o.offset_acked)`
	if p.db.Name() == "sqlite" {
		after = `m."offset" > o.offset_acked`
	}
	require.NoError(t, p.db.Raw(fmt.Sprintf(`SELECT count(*) FROM "watermill_%[1]s" m
		WHERE NOT EXISTS (SELECT 1 FROM "watermill_offsets_%[1]s" o WHERE o.consumer_group = ? AND NOT %[2]s)`, topic, after),
		group).Scan(&n).Error)
	return n
}

// letter is a dead letter.
type letter struct{ payload, reason string }

// buried returns the dead letters.
func (p *env) buried(t testing.TB) (letters []letter) {
	t.Helper()
	add := func(payload []byte, reason string) { letters = append(letters, letter{string(payload), reason}) }
	if p.broker == "sql" {
		var rows []struct{ Payload, Metadata []byte }
		require.NoError(t, p.db.Raw(fmt.Sprintf(`SELECT payload, metadata FROM "watermill_%s" ORDER BY "offset"`, deadLetters)).
			Scan(&rows).Error)
		for _, row := range rows {
			var metadata map[string]string
			require.NoError(t, json.Unmarshal(row.Metadata, &metadata))
			add(row.Payload, metadata["reason_poisoned"])
		}
		return letters
	}
	conn, err := nats.Connect(p.natsURL)
	require.NoError(t, err)
	defer conn.Close()
	js, err := conn.JetStream()
	require.NoError(t, err)
	stream, err := js.StreamInfo(deadLetters)
	require.NoError(t, err)
	for i := range stream.State.Msgs {
		m, err := js.GetMsg(deadLetters, stream.State.FirstSeq+i)
		require.NoError(t, err)
		add(m.Data, m.Header.Get("reason_poisoned"))
	}
	return letters
}

// eventually waits until something holds that the test cannot be told of. It is patient: watermill-sql delivers nothing
// on PostgreSQL that is newer than the oldest open transaction of the whole server, and other tests share the server.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not yet: %s", what)
	}
}
