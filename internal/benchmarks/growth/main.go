// Command growth measures how the cost of the library grows with its table, and writes the figures into docs/contributors/measuring.md:
//
//	cd internal/benchmarks && go run ./growth                            some 15 minutes, 30 GB of disk
//	cd internal/benchmarks && go run ./growth -sizes 10000,1000000       some five
//
// It starts a PostgreSQL of its own from the installed programs and removes it in the end, also when it is interrupted.
// Commits are durable. Commands go through gormstore, whose calls are those of a guarded route; HTTP, the guards and the
// command hash do not grow with the table, and are in docs/performance.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/auth19/idem/internal/benchmarks/report"
	"github.com/auth19/idem/internal/testhost"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	p := plan{
		turn: 2 * time.Second, rounds: 3, clients: 8, processes: 2000, pace: 1000, day: 15 * time.Second, days: 3, perDay: 18_000,
		few: 100_000, memory: "2GB",
	}
	flags := flag.NewFlagSet("growth", flag.ContinueOnError)
	list := flags.String("sizes", "10000,1000000,20000000", "how many records, ascending")
	out := flags.String("out", "../../docs/contributors/measuring.md", "the page to write into; empty: print only")
	flags.DurationVar(&p.turn, "turn", p.turn, "how long one turn of a measurement takes")
	flags.DurationVar(&p.day, "day", p.day, "how long a day takes where time is compressed")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	sizes, err := numbers(*list)
	if err != nil {
		return fmt.Errorf("-sizes: %w", err)
	}
	if p.turn <= 0 || p.day < time.Second {
		return fmt.Errorf("-turn %s, -day %s: want more than 0 and 1s at least", p.turn, p.day)
	}
	p.sizes = sizes
	var into *report.Page
	if *out != "" {
		if into, err = openPage(*out); err != nil {
			return err // before all the work, and not after it
		}
	}

	begun := time.Now()
	text, err := measure(ctx, p)
	if err != nil {
		return err
	}
	progress("took %s", time.Since(begun).Round(time.Second))
	if into == nil {
		fmt.Print(text)
		return nil
	}
	return into.Write(text)
}

// measure carries out a plan and returns the report.
func measure(ctx context.Context, p plan) (text string, err error) {
	failed := testhost.Run(ctx, "growth", func(t testing.TB) {
		var g *growth
		if g, err = start(t, p); err == nil {
			err = g.run(t.Context())
		}
		if err == nil {
			text = g.report.String()
		}
	})
	if ctx.Err() != nil {
		return "", context.Cause(ctx) // whatever else failed, failed because of it
	}
	return text, errors.Join(failed, err)
}

// progress tells on the standard error what is going on.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// numbers reads a list of ascending numbers, none below the fewest that a table is generated from.
func numbers(list string) ([]int64, error) {
	var all []int64
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || n < fewest {
			return nil, fmt.Errorf("%q is not a number from %d on", text, fewest)
		}
		all = append(all, n)
	}
	if !slices.IsSorted(all) {
		return nil, fmt.Errorf("%q is not ascending", list)
	}
	return all, nil
}
