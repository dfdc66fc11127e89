// The example client: go run ./examples/client. It needs nothing but Go. It makes many payments at an example app,
// over a network that breaks all the time, and then counts what was booked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/auth19/idem/internal/cutproxy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "idem-client-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if o.journal == "" {
		o.journal = filepath.Join(dir, "client.db")
	}
	if o.url == "" {
		_, _ = fmt.Fprintln(out, "starting an example app: ./examples/gin")
		app, err := startApp(ctx, dir)
		if err != nil {
			return err
		}
		defer app.stop()
		o.url, o.token = app.url, app.token
	}

	target, err := url.Parse(o.url)
	if err != nil {
		return err
	}
	proxy, err := cutproxy.New(target.Host, cutproxy.Random(o.seed, meanLife))
	if err != nil {
		return err
	}
	defer proxy.Close()
	_, _ = fmt.Fprintf(out, "paying at %s, through a proxy that cuts connections at any byte (-seed %d)\n", o.url, o.seed)

	network := through(proxy, o.clients)
	defer network.CloseIdleConnections()
	p, err := openPayer(ctx, o, network)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.plan(o.intents); err != nil {
		return err
	}
	if err := p.payAll(ctx, o.clients, out); err != nil {
		return err
	}

	proxy.SetPlan(nil) // what counts is not cut
	proxy.CutAll()
	entries, err := p.booked(ctx)
	if err != nil {
		return err
	}
	intents, err := p.planned()
	if err != nil {
		return err
	}
	return report(out, intents, entries, p, proxy.Stats())
}
