package suite

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"testing"

	"gorm.io/driver/mysql"

	"github.com/auth19/idem/internal/generator"
	"github.com/auth19/idem/internal/mariatest"
	"github.com/auth19/idem/internal/pgproxy"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "of the generator's runs; 0 takes one at random")
	runsFlag  = flag.Uint64("runs", 30, "how many runs, where -for does not say how long")
	forFlag   = flag.Duration("for", 0, "how long the generator goes on")
	onlyFlag  = flag.Uint64("only", 0, "makes one run again, by its number, so many times as -runs says")
	printFlag = flag.Bool("print", false, "prints each run")
)

// Handlers and faults at random, with a proxy that knows MySQL's packets.
//
// CONTRACT M-1, M-3, M-4, M-6, R-2, R-6, X-0, X-2, X-3, X-4, X-7, X-14, X-15, X-16, F-1, F-2, Q-3
func TestGenerator(t *testing.T) {
	generator.Generate(t, generator.Options{Seed: cmp.Or(*seedFlag, rand.Uint64N(1<<32)), Runs: *runsFlag, For: *forFlag,
		Only: *onlyFlag, Print: *printFlag, Database: mysql.Open, URL: mariatest.Address, Proxy: pgproxy.NewMySQL,
		Brief: "SET STATEMENT innodb_lock_wait_timeout = 1 FOR "})
}
