// The shop of examples/gin with metrics for Prometheus: go run ./examples/observed. It needs nothing but Go.
// compose.yaml starts it with PostgreSQL, Prometheus and Grafana.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/auth19/idem/examples/internal/app"
	"github.com/auth19/idem/examples/internal/ginapi"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once

	m, err := newMetrics()
	if err != nil {
		return err
	}
	a, err := app.Open(ctx, m.telemetry) // beside the app's LogObserver
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()

	r := ginapi.New(a)
	if err := errors.Join(ginidem.Audit(r, a.Idem), gormstore.Audit(ctx, a.DB, shop.MoneyModels()...)); err != nil {
		return err
	}
	// The gauges are read from the store, which closes after them.
	unwatch, err := m.telemetry.Watch(a.Idem)
	if err != nil {
		return err
	}
	defer unwatch()
	end, err := m.serve(ctx)
	if err != nil {
		return err
	}
	defer end()
	return a.Serve(ctx, r)
}
