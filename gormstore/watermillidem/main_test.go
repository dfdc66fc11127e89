package watermillidem_test

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/gormstore/watermillidem"
	"github.com/auth19/idem/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is a business row.
type row struct {
	ID   uint
	Name string
}

func addRow(tx *gorm.DB) error { return tx.Create(&row{Name: "row"}).Error }

// bench is an app's database with the queues in it.
type bench struct {
	*testing.T
	db       *gorm.DB
	store    *gormstore.Store
	schema   wsql.SchemaAdapter
	offsets  wsql.OffsetsAdapter
	beginner wsql.Beginner
}

// each runs a test on both databases.
func each(t *testing.T, run func(b *bench)) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) *bench{"postgres": onPostgres, "sqlite": onSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(open(t))
		})
	}
}

func onPostgres(t *testing.T) *bench { return onPostgresAt(t, pgtest.URL(t)) }

func onPostgresAt(t *testing.T, url string) *bench {
	t.Helper()
	b, pool := open(t, postgres.Open(url))
	b.schema, b.offsets = wsql.DefaultPostgreSQLSchema{}, watermillidem.PostgreSQLOffsets{}
	b.beginner = wsql.BeginnerFromStdSQL(pool)
	return b.init()
}

func onSQLite(t *testing.T) *bench {
	t.Helper()
	b, pool := open(t, sqlite.Open("file:"+filepath.Join(t.TempDir(), "test.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"))
	b.schema, b.offsets = watermillidem.SQLiteSchema{}, watermillidem.SQLiteOffsets{}
	b.beginner = watermillidem.SQLiteBeginner(pool)
	return b.init()
}

func open(t *testing.T, dialector gorm.Dialector) (*bench, *sql.DB) {
	t.Helper()
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(16)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.AutoMigrate(&row{}))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &bench{T: t, db: db, store: store}, pool
}

// topic is what the tests publish to.
const topic = "payments"

// init makes the tables of the queues.
func (b *bench) init() *bench {
	b.Helper()
	for _, name := range []string{topic, outbox, graves} {
		require.NoError(b, b.subscriber("init").SubscribeInitialize(name))
	}
	return b
}

func (b *bench) subscriber(group string) *wsql.Subscriber {
	b.Helper()
	s, err := wsql.NewSubscriber(b.beginner, wsql.SubscriberConfig{
		ConsumerGroup: group, SchemaAdapter: b.schema, OffsetsAdapter: b.offsets, InitializeSchema: true,
		PollInterval: 10 * time.Millisecond, ResendInterval: 10 * time.Millisecond, RetryInterval: 10 * time.Millisecond,
	}, nil)
	require.NoError(b, err)
	return s
}

// inbox returns one of a group.
func (b *bench) inbox(group string) *inbox.Inbox {
	b.Helper()
	box, err := inbox.New(b.db, inbox.Config{Group: group, BrokerRetention: 24 * time.Hour})
	require.NoError(b, err)
	return box
}

// handler returns the handler of an inbox.
func (b *bench) handler(box *inbox.Inbox, handle func(tx *gorm.DB, msg *message.Message) error,
) message.NoPublishHandlerFunc {
	b.Helper()
	h, err := watermillidem.Inbox(box, topic, handle)
	require.NoError(b, err)
	return h
}

// publish publishes an event from the transaction of ctx.
func (b *bench) publish(ctx context.Context, event *message.Message) error {
	publisher, err := watermillidem.Publisher(ctx, b.schema)
	if err != nil {
		return err
	}
	return publisher.Publish(topic, event)
}

// pay adds a row and publishes an event in one transaction.
func (b *bench) pay(tx *gorm.DB) error {
	if err := addRow(tx); err != nil {
		return err
	}
	event, err := watermillidem.Event(tx.Statement.Context, "paid", []byte(`{"amount": "10.00"}`))
	if err != nil {
		return err
	}
	return b.publish(tx.Statement.Context, event)
}

func (b *bench) rows() int {
	b.Helper()
	var n int64
	require.NoError(b, b.db.Model(&row{}).Count(&n).Error)
	return int(n)
}

// published lists the ids of the events that are in the topic's table.
func (b *bench) published() (ids []string) {
	b.Helper()
	require.NoError(b, b.db.Raw(`SELECT uuid FROM watermill_`+topic+` ORDER BY "offset"`).Scan(&ids).Error)
	return ids
}

// started is when the server was started.
func (b *bench) started() (at time.Time) {
	b.Helper()
	if b.db.Name() == "postgres" {
		require.NoError(b, b.db.Raw("SELECT pg_postmaster_start_time()").Scan(&at).Error)
	}
	return at
}

func (b *bench) module(r core.Recovery) *core.Module {
	b.Helper()
	m, err := core.New(core.Config{Store: b.store, Policy: core.Policy{Recovery: r}, ClaimTimeout: 10 * time.Second})
	require.NoError(b, err)
	return m
}

// answers sends a command whose handler does something and answers with a status, which the client gets.
func (b *bench) answers(status int, m *core.Module, key string, do func(ctx context.Context)) {
	b.Helper()
	require.Equal(b, status, send(b, m, key, func(w http.ResponseWriter, r *http.Request) {
		do(r.Context())
		w.WriteHeader(status)
	}).Code)
}

// pays is such a command, with a row and an event.
func (b *bench) pays(status int, m *core.Module, key string) {
	b.Helper()
	b.answers(status, m, key, func(ctx context.Context) { require.NoError(b, b.pay(gormstore.Tx(ctx))) })
}

// publishes is such a command with an event alone, in so many copies.
func (b *bench) publishes(key string, copies int) (event *message.Message) {
	b.Helper()
	b.answers(http.StatusCreated, b.module(core.Rollback), key, func(ctx context.Context) {
		var err error
		event, err = watermillidem.Event(ctx, "paid", []byte(`{"amount":"10.00"}`))
		require.NoError(b, err)
		for range copies {
			require.NoError(b, b.publish(ctx, event))
		}
	})
	return event
}

// send is an adapter for one request.
func send(t testing.TB, m *core.Module, key string, h http.HandlerFunc) *httptest.ResponseRecorder {
	t.Helper()
	p := core.Principal{Issuer: "https://issuer.example", Subject: "alice"}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/v1/payments", strings.NewReader(`{"amount":"10.00"}`))
	r.Header.Set("Idempotency-Key", key)
	r, reply := m.Admit(r, "/v1/payments", p)
	require.Nil(t, reply)
	attempt, reply := m.Begin(r, "/v1/payments", p)
	if reply == nil {
		h(attempt.Capture(w), attempt.Request())
		reply = attempt.Finish()
	}
	if reply != nil {
		require.NoError(t, reply.WriteTo(w))
	}
	return w
}
