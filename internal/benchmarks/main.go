// Command benchmarks compares this library with what an app would have without it, and prints the figures for
// docs/performance.md:
//
//	cd internal/benchmarks && go run . -for 60s                   prints them
//	cd internal/benchmarks && go run . -for 5m -docs ../../docs   writes them into the page
//	cd internal/benchmarks && go run . -crowds . -for 5s          tries crowds, so long each: see crowds.go
//	cd internal/benchmarks && go run . -sizing -for 10s           predicts connections and disk, and measures: see sizing.go
//
// The sides of a comparison take turns in one run, and the result is a ratio. PostgreSQL is started from the installed
// programs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
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
	total := flags.Duration("for", time.Minute, "how long all turns take together")
	turn := flags.Duration("turn", 200*time.Millisecond, "how long a turn takes")
	clients := flags.Int("clients", 16, "how many clients send at once on this machine")
	docs := flags.String("docs", "", "the folder of performance.md, to write there; empty: print")
	crowds := flags.String("crowds", "", "the trials with crowds whose names match; empty: compare quiet ways")
	sizing := flags.Bool("sizing", false, "a steady load for so long: connections and disk, predicted and measured")
	_ = flags.Parse(args) // exits on an error
	if *sizing {
		return trySizing(*total)
	}
	if *crowds != "" {
		return tryCrowds(*crowds, *total)
	}
	if *clients < 1 || *turn <= 0 {
		return fmt.Errorf("-clients %d, -turn %v: want more than 0", *clients, *turn)
	}
	var page *report.Page
	if *docs != "" {
		var err error
		if page, err = openPage(*docs); err != nil {
			return err // before all the work, and not after it
		}
	}
	b := &benchmark{
		meter: meter{turn: *turn, warmUp: true, progress: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, format, args...)
		}},
		clients: *clients, spread: 500, commands: 200,
	}
	text, err := b.text(*total)
	switch {
	case err != nil:
		return err
	case page == nil:
		fmt.Print(text)
		return nil
	}
	return page.Write(text)
}

// openPage reads performance.md in the folder of documents.
func openPage(docs string) (*report.Page, error) {
	return report.OpenPage(filepath.Join(docs, "performance.md"), "benchmarks", "internal/benchmarks")
}

// text runs the benchmark and returns the report.
func (b *benchmark) text(total time.Duration) (text string, err error) {
	failed := testhost.Run(context.Background(), "benchmarks", func(t testing.TB) {
		var o outcome
		if o, err = b.run(t, total); err == nil {
			text = b.tell(o)
		}
	})
	return text, errors.Join(failed, err)
}
