//go:build linux

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
	"time"
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

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	programs, err := findPrograms()
	if err != nil {
		return err
	}
	r, err := newRoom()
	if err != nil {
		return err
	}
	defer func() {
		r.killAll()
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w\nthe logs of all processes are kept in %s", err, r.directory)
			return
		}
		_ = os.RemoveAll(r.directory)
	}()
	begun := time.Now()
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%6.1fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	say("%v", o)
	return trial{options: o, room: r, programs: programs, say: say}.run(ctx, out)
}
