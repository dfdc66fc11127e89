// Soak is the long run: hundreds of thousands of money requests to two example apps, one on Gin and one on Echo, over
// one PostgreSQL. Connections are cut at any byte or pass nothing any more, requests are sent twice, clients hang up,
// handlers hang, the apps are killed and paused, and the database is stopped, killed and started again.
//
//	go run ./internal/soak -requests 1000000
//
// In the end every command is repeated once more, its effects are counted, and a table is printed. If an effect happened
// twice or was lost, or if two answers contradict each other, the findings are printed and the exit code is 1. It needs
// only Go and PostgreSQL's programs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/auth19/idem/internal/testhost"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
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
	var verdict error
	failed := testhost.Run(ctx, "soak", func(t testing.TB) {
		s := start(t, o)
		_, _ = fmt.Fprintf(out, "%d requests to two apps over one PostgreSQL, with faults (-seed %d)\n", o.requests, o.seed)
		showing := s.showProgress(out)
		s.load()
		s.callRoll()
		showing()
		if ctx.Err() == nil {
			verdict = s.report(out)
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx) // all other errors follow from it
	}
	return errors.Join(failed, verdict)
}
