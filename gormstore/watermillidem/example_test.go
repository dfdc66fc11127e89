package watermillidem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/gormstore/watermillidem"
)

// Payment is a money row.
type Payment struct {
	gormstore.Once
	ID     uint
	Amount string
}

// Mail is a row of the mail log.
type Mail struct {
	ID   uint
	Text string
}

// The app publishes an event from the payment's own transaction, and a worker writes a mail for it, once. Here both run
// on one SQLite file; on PostgreSQL schema, offsets and beginner are watermill-sql's own.
func Example() {
	dir, err := os.MkdirTemp("", "idem")
	must(err)
	defer func() { must(os.RemoveAll(dir)) }()
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(dir, "app.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"),
		&gorm.Config{Logger: logger.Discard})
	must(err)
	pool, err := db.DB()
	must(err)
	defer func() { must(pool.Close()) }()
	must(gormstore.Migrate(context.Background(), db))
	must(db.AutoMigrate(&Payment{}, &Mail{}))
	store, err := gormstore.New(db)
	must(err)
	defer func() { must(store.Close()) }()
	subscriber, err := wsql.NewSubscriber(watermillidem.SQLiteBeginner(pool), wsql.SubscriberConfig{
		ConsumerGroup: "mail", PollInterval: 10 * time.Millisecond,
		SchemaAdapter: watermillidem.SQLiteSchema{}, OffsetsAdapter: watermillidem.SQLiteOffsets{},
	}, nil)
	must(err)
	must(subscriber.SubscribeInitialize("payments"))

	// The app: a repeat publishes nothing.
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	must(err)
	for range 2 {
		fmt.Println(examplePost(idem, func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			_, err := gormstore.CreateOnce(gormstore.Tx(ctx), &Payment{Amount: "12.50"})
			must(err)
			publisher, err := watermillidem.Publisher(ctx, watermillidem.SQLiteSchema{})
			must(err)
			event, err := watermillidem.Event(ctx, "payment.captured", []byte(`{"amount":"12.50"}`))
			must(err)
			must(publisher.Publish("payments", event))
			w.WriteHeader(http.StatusCreated)
		}))
	}

	// The worker.
	box, err := inbox.New(db, inbox.Config{Group: "mail", BrokerRetention: 7 * 24 * time.Hour})
	must(err)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	must(err)
	handle, err := watermillidem.Inbox(box, "payments", func(tx *gorm.DB, msg *message.Message) error {
		return tx.Create(&Mail{Text: "received " + string(msg.Payload)}).Error
	})
	must(err)
	router.AddConsumerHandler("mail", "payments", subscriber, func(msg *message.Message) error {
		defer func() { go func() { must(router.Close()) }() }() // one event is enough for an example
		must(handle(msg))
		return handle(msg) // as if it were delivered again
	})
	must(router.Run(context.Background()))

	var mails []Mail
	must(db.Find(&mails).Error)
	fmt.Println(len(mails), mails[0].Text)
	// Output:
	// 201 created
	// 201 reused
	// 1 received {"amount":"12.50"}
}

// examplePost stands for a framework's adapter: ginidem or echoidem.
func examplePost(idem *core.Module, handler http.HandlerFunc) string {
	const route = "/v1/payments"
	caller := core.Principal{Issuer: "https://issuer.example", Subject: "customer-1"}
	r := httptest.NewRequest(http.MethodPost, route, strings.NewReader(`{"amount":"12.50"}`))
	r.Header.Set("Idempotency-Key", "order-7")
	w := httptest.NewRecorder()
	r, reply := idem.Admit(r, route, caller)
	if reply == nil {
		var attempt *core.Attempt
		if attempt, reply = idem.Begin(r, route, caller); attempt != nil {
			handler(attempt.Capture(w), attempt.Request())
			reply = attempt.Finish()
		}
	}
	must(reply.WriteTo(w))
	return fmt.Sprint(w.Code, " ", w.Header().Get(wire.HeaderResult))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
