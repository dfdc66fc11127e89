package generator

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/internal/pgproxy"
	"github.com/auth19/idem/internal/pgtest"
)

// Options say what is generated, and for which database.
type Options struct {
	Seed  uint64
	Runs  uint64        // how many, where For does not say how long
	For   time.Duration // how long it goes on
	Only  uint64        // if not 0, this run alone, again and again
	Print bool          // each run

	// Database opens the database of a URL.
	Database func(url string) gorm.Dialector
	URL      func(t testing.TB) string                // an empty database; nil: of PostgreSQL
	Proxy    func(url string) (*pgproxy.Proxy, error) // to a database; nil: PostgreSQL's
	Brief    string                                   // stands before a statement that must not wait for a lock for long
	// Unlocked: no lock keeps two attempts from running beside each other until one of them commits (M-6).
	Unlocked bool
}

// worlds is how many runs there are at a time. Most of a run is waiting.
const worlds = 6

// Generate makes handlers and faults at random. A run that went wrong is printed with what makes it again.
func Generate(t *testing.T, o Options) {
	t.Helper()
	t.Logf("-seed %d", o.Seed)
	if o.URL == nil {
		o.URL, o.Proxy = pgtest.URL, pgproxy.New
	}
	began := time.Now()
	var next, done atomic.Uint64
	var stop atomic.Bool
	var all sync.WaitGroup
	for range worlds {
		w := newWorld(t, o)
		all.Go(func() {
			for n := next.Add(1); !stop.Load(); n = next.Add(1) {
				if o.For > 0 && time.Since(began) > o.For || o.For == 0 && n > o.Runs {
					return
				}
				number := n
				if o.Only > 0 {
					number = o.Only
				}
				r := rand.New(rand.NewPCG(o.Seed, number))
				k := newRun(n, newProgram(r), r.IntN(3) == 0)
				k.unlocked = o.Unlocked
				wrong := w.play(k, r)
				done.Add(1)
				if o.Print || len(wrong) > 0 {
					t.Logf("run %d: %s", n, k.text())
				}
				if len(wrong) > 0 && !stop.Swap(true) {
					t.Errorf("after %d runs in %v, run %d (again: -seed %d -only %d): %v\n\t%s", done.Load(),
						time.Since(began).Round(time.Second), n, o.Seed, number, k.program, strings.Join(wrong, "\n\t"))
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d runs in %v", done.Load(), time.Since(began).Round(time.Second))
}
