// Command benchmarks measures what this library costs, beside what one would have without it, and writes the figures
// into docs/performance.md:
//
//	cd internal/benchmarks && go run .             all of it, some six minutes
//	cd internal/benchmarks && go run . -short      proves that all of it runs; writes nothing
//
// What is compared is measured in one run, in turns, and told as a ratio. PostgreSQL is that of the tests: the one that
// TEST_DATABASE_URL names, or one that is started from the installed programs.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
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
	if *short {
		x.shorten()
		*docs = ""
	}
	h := newHost()
	begun := time.Now()
	err = h.run(func() error {
		if err := x.open(h); err != nil {
			return err
		}
		if err := x.machine(begun); err != nil {
			return err
		}
		return x.run()
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "took %s\n", time.Since(begun).Round(time.Second))
	if *docs == "" {
		fmt.Print(x.report.text.String())
		return nil
	}
	return x.report.write(*docs)
}

// shorten makes the matrix prove that every cell runs, and measure nothing.
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
