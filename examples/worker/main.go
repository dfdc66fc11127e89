// The example app with a worker behind it. Each captured payment becomes an event, in the payment's own transaction;
// the worker takes the events from a broker, and for each it takes a piece out of the warehouse and writes a mail, once.
//
//	cd examples/worker
//	go run .                                                  everything in an SQLite file, idem-example.db
//	DATABASE_URL=postgres://... go run .                      the database is the broker
//	DATABASE_URL=postgres://... go run . -broker nats -nats nats://127.0.0.1:4222
//
// It prints tokens and curl lines, and reads the same environment variables as the other example apps. Any number of
// instances may share a PostgreSQL. NATS needs JetStream: nats-server -js. Messages that cannot be handled go to the topic
// payment_captured_dead, a table or a stream.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/auth19/idem/examples/internal/app"
	"github.com/auth19/idem/examples/internal/ginapi"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

func main() {
	s := settings{redeliver: 30 * time.Second}
	flag.StringVar(&s.broker, "broker", "sql", "what carries the events: sql (the app's own database) or nats")
	flag.StringVar(&s.natsURL, "nats", "nats://127.0.0.1:4222", "the NATS server, with -broker nats")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type settings struct {
	broker    string
	natsURL   string
	redeliver time.Duration // how long the broker waits for an acknowledgement: longer than all tries at a message take
}

// run serves the app and runs the worker until ctx ends. Then it waits for running requests and messages. around wraps the
// handling of each message, for tests.
func run(ctx context.Context, s settings, around ...message.HandlerMiddleware) (err error) {
	a, err := app.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	log := watermill.NewSlogLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	b, err := openBroker(s, a.DB, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	a.Shop.Paid = b.announce

	w, err := newWorker(ctx, a.DB, b, log, around...)
	if err != nil {
		return err
	}
	r := ginapi.New(a)
	if err := errors.Join(ginidem.Audit(r, a.Idem), gormstore.Audit(ctx, a.DB, shop.MoneyModels()...)); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.Serve(ctx, r) })
	g.Go(func() error { return w.run(ctx) })
	return g.Wait()
}
