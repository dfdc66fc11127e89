// Command benchmarks compares this library with what an app would have without it, and writes the figures into
// docs/performance.md:
//
//	cd internal/benchmarks && go run .                 all of it, some six minutes
//	cd internal/benchmarks && go run . -only byhand    one part; hash is not in the page; writes nothing
//	cd internal/benchmarks && go run . -short          proves that all of it runs; writes nothing
//
// The sides of a comparison take turns in one run, and the result is a ratio. PostgreSQL is the server of the tests: the
// one that TEST_DATABASE_URL names, or one that is started from the installed programs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/auth19/idem/internal/benchmarks/report"
	"github.com/auth19/idem/internal/testhost"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	flags := flag.NewFlagSet("benchmarks", flag.ExitOnError)
	duration := flags.Duration("duration", 1500*time.Millisecond, "how long each side of a comparison is measured")
	rounds := flags.Int("rounds", 5, "in how many turns")
	clients := flags.String("clients", "1,4,16,64,256", "how many clients send at once, where that is varied")
	docs := flags.String("docs", "../../docs", "the folder of performance.md; empty: print only")
	only := flags.String("only", "", "measure these parts only, and write nothing: "+strings.Join((&matrix{}).partNames(), ","))
	short := flags.Bool("short", false, "prove that everything runs, as fast as it can; writes nothing")
	_ = flags.Parse(args) // exits on an error
	counts, err := numbers(*clients)
	if err != nil || *rounds < 1 {
		return fmt.Errorf("-clients %q, -rounds %d: want whole numbers above 0", *clients, *rounds)
	}
	x := &matrix{
		meter: meter{duration: *duration, rounds: *rounds, warmUp: *duration / 10, progress: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, format, args...)
		}},
		many: 8, clients: counts, spread: 500, sizes: []int{100, 10_000, 1_000_000},
	}
	if *only != "" {
		x.only, *docs = strings.Split(*only, ","), ""
		for _, name := range x.only {
			if !slices.Contains(x.partNames(), name) {
				return fmt.Errorf("-only %q: there are %s", name, strings.Join(x.partNames(), ", "))
			}
		}
	}
	if *short {
		x.shorten()
		*docs = ""
	}
	var into *report.Page
	if *docs != "" {
		if into, err = openPage(*docs); err != nil {
			return err // before all the work, and not after it
		}
	}
	begun := time.Now()
	var measured error
	failed := testhost.Run(context.Background(), "benchmarks", func(t testing.TB) {
		if measured = x.open(t); measured == nil {
			measured = x.machine(begun)
		}
		if measured == nil {
			measured = x.run()
		}
	})
	if err := errors.Join(failed, measured); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "took %s\n", time.Since(begun).Round(time.Second))
	if into == nil {
		fmt.Print(x.report.String())
		return nil
	}
	return x.report.write(into, *docs)
}

// shorten makes the matrix run every cell for a moment, and measure nothing.
func (x *matrix) shorten() {
	x.duration, x.rounds, x.warmUp = 0, 1, 0
	x.many, x.clients, x.spread = 2, []int{1, 16}, 3
}

func numbers(list string) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("not a number above 0: %q", text)
		}
		all = append(all, n)
	}
	return all, nil
}
