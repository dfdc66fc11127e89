package harness

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/pgtest"
)

// Fault is a fault of an app or of the database. It happens Weight times as often as a fault of weight 1.
type Fault struct {
	Name   string
	Weight int
	Ends   bool // it ends the life of an app
	Strike func(ctx context.Context, in *Instance)
}

// Nemesis causes faults, one after the other.
type Nemesis struct {
	T         testing.TB
	R         *rand.Rand
	Instances []*Instance
	Database  func() *pgtest.Cluster // returns the one that the instances use now
	Faults    []Fault
	Between   time.Duration    // time between two faults, on average
	Spared    func(Fault) bool // reports the faults that must not happen now; nil: all may happen

	Struck map[string]int // number of faults by name
	Total  atomic.Int64
}

// Work breaks connections and causes faults until ctx ends. Afterwards everything runs, and connections still break.
func (n *Nemesis) Work(ctx context.Context) {
	n.Struck = map[string]int{}
	for _, in := range n.Instances {
		in.BreakUp()
	}
	var wheel []Fault
	for _, f := range n.Faults {
		for range f.Weight {
			wheel = append(wheel, f)
		}
	}
	n.Pause(ctx, 2*n.Between)
	for next := 0; ctx.Err() == nil; next++ {
		if next%len(wheel) == 0 { // every fault happens once in each turn
			n.R.Shuffle(len(wheel), func(i, j int) { wheel[i], wheel[j] = wheel[j], wheel[i] })
		}
		f := wheel[next%len(wheel)]
		if n.Spared != nil && n.Spared(f) {
			continue
		}
		n.Struck[f.Name]++
		n.Total.Add(1)
		f.Strike(ctx, n.Instances[n.R.IntN(len(n.Instances))])
		n.Pause(ctx, 2*n.Between)
	}
}

// Pause waits for a random time up to most, or until ctx ends.
func (n *Nemesis) Pause(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(n.R.Int64N(int64(most)))):
	}
}

// Usual returns the faults of every run. A killed app is started again after up to dead, and a paused app continues after up
// to paused. weights replaces the weights of faults by their names.
func (n *Nemesis) Usual(dead, paused time.Duration, weights map[string]int) []Fault {
	t := n.T
	database := func(stop func(*pgtest.Cluster)) func(context.Context, *Instance) {
		return func(ctx context.Context, _ *Instance) {
			database := n.Database()
			stop(database)
			n.Pause(ctx, 500*time.Millisecond)
			database.Start()
		}
	}
	faults := []Fault{
		{"app killed (SIGKILL)", 4, true, func(ctx context.Context, in *Instance) {
			in.Kill(t)
			n.Pause(ctx, dead)
			in.Start()
			in.BreakUp()
		}},
		{"app stopped (SIGTERM)", 2, true, func(_ context.Context, in *Instance) {
			in.Stop(t)
			in.Start()
			in.BreakUp()
		}},
		{"app paused (SIGSTOP)", 2, false, func(ctx context.Context, in *Instance) {
			require.NoError(t, in.Pause())
			n.Pause(ctx, paused) // leases run out
			require.NoError(t, in.Continue())
		}},
		{"all clients cut off", 2, false, func(_ context.Context, in *Instance) { in.Front.CutAll() }},
		{"all clients left without a word", 1, false, func(_ context.Context, in *Instance) { in.Front.SilenceAll() }},
		{"app cut off from the database", 2, false, func(_ context.Context, in *Instance) { in.Back.CutAll() }},
		{"app left without a word of the database", 1, false, func(_ context.Context, in *Instance) { in.Back.SilenceAll() }},
		{"database stopped (fast)", 1, false, database(func(c *pgtest.Cluster) { c.Stop(pgtest.Fast) })},
		{"database stopped (immediate)", 1, false, database(func(c *pgtest.Cluster) { c.Stop(pgtest.Immediate) })},
		{"database killed (SIGKILL)", 2, false, database((*pgtest.Cluster).Kill)},
	}
	for i, f := range faults {
		if weight, ok := weights[f.Name]; ok {
			faults[i].Weight = weight
		}
	}
	return faults
}
