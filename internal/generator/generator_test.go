package generator

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
	"gorm.io/driver/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	seedFlag  = flag.Uint64("seed", 0, "of the runs; 0 takes one at random")
	runsFlag  = flag.Uint64("runs", 50, "how many runs, where -for does not say how long")
	forFlag   = flag.Duration("for", 0, "how long it goes on")
	onlyFlag  = flag.Uint64("only", 0, "makes one run again, by its number, so many times as -runs says")
	printFlag = flag.Bool("print", false, "prints each run")
)

// TestGenerator makes handlers and faults at random.
//
// CONTRACT M-1, M-3, M-4, M-6, R-2, R-6, X-0, X-2, X-3, X-4, X-7, X-14, X-15, X-16, F-1, F-2, Q-3
func TestGenerator(t *testing.T) {
	Generate(t, Options{Seed: cmp.Or(*seedFlag, rand.Uint64N(1<<32)), Runs: *runsFlag, For: *forFlag, Only: *onlyFlag,
		Print: *printFlag, Database: postgres.Open})
}
