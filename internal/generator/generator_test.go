package generator

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	seedFlag  = flag.Uint64("seed", 0, "of the runs; 0 takes one at random")
	runsFlag  = flag.Uint64("runs", 50, "how many runs, where -for does not say how long")
	forFlag   = flag.Duration("for", 0, "how long it goes on")
	onlyFlag  = flag.Uint64("only", 0, "makes one run again, by its number, so many times as -runs says")
	printFlag = flag.Bool("print", false, "prints each run")
)

// worlds is how many runs there are at a time. Most of a run is waiting.
const worlds = 6

// TestGenerator makes handlers and faults at random. A run that went wrong is printed with what makes it again.
//
// CONTRACT M-1, M-3, M-4, M-6, R-2, R-6, X-0, X-2, X-3, X-4, X-7, X-14, X-15, X-16, F-1, F-2, Q-3
func TestGenerator(t *testing.T) {
	seed := cmp.Or(*seedFlag, rand.Uint64N(1<<32))
	t.Logf("-seed %d", seed)
	began := time.Now()
	var next, done atomic.Uint64
	var stop atomic.Bool
	var all sync.WaitGroup
	for range worlds {
		w := newWorld(t)
		all.Go(func() {
			for n := next.Add(1); !stop.Load(); n = next.Add(1) {
				if *forFlag > 0 && time.Since(began) > *forFlag || *forFlag == 0 && n > *runsFlag {
					return
				}
				number := cmp.Or(*onlyFlag, n)
				r := rand.New(rand.NewPCG(seed, number))
				k := newRun(n, newProgram(r), r.IntN(3) == 0)
				wrong := w.play(k, r)
				done.Add(1)
				if *printFlag || len(wrong) > 0 {
					t.Logf("run %d: %s", n, k.text())
				}
				if len(wrong) > 0 && !stop.Swap(true) {
					t.Errorf("after %d runs in %v, run %d (again: -seed %d -only %d): %v\n\t%s", done.Load(),
						time.Since(began).Round(time.Second), n, seed, number, k.program, strings.Join(wrong, "\n\t"))
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d runs in %v", done.Load(), time.Since(began).Round(time.Second))
}
