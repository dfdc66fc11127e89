// Command idemctl is for operators without a browser, and for pipelines: docs/idemctl.md. It migrates and checks the
// database, and finds, settles, pushes and marks operations over the app's own API, so that roles, tenants, keys and
// observers are the app's.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	in := int(os.Stdin.Fd())
	code := run(ctx, os.Args[1:], surroundings{
		in: os.Stdin, out: os.Stdout, log: os.Stderr, getenv: os.Getenv, terminal: term.IsTerminal(in),
		secret: func() (string, error) {
			line, err := term.ReadPassword(in)
			fmt.Fprintln(os.Stderr)
			return string(line), err
		},
	})
	stop()
	os.Exit(code)
}
