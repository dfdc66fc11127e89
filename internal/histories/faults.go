package histories

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/pgtest"
)

// fault is a fault of an app or of the database. It happens weight times as often as a fault of weight 1.
type fault struct {
	name   string
	weight int
	ends   bool // it ends the life of an app
	strike func(ctx context.Context, in *instance)
}

// nemesis causes faults, one after the other.
type nemesis struct {
	t       *testing.T
	world   *world
	r       *rand.Rand
	between time.Duration // time between two faults, on average; 0: there are none, and no connection breaks
	faults  []fault
	spares  func() bool // reports whether no app must end now; nil: they may always

	struck map[string]int // number of faults by name
}

// disturb lets clients work, each with its number, under faults until ctx ends. Then everything runs, nothing breaks
// any more, and it waits for the clients.
func (n *nemesis) disturb(ctx context.Context, clients int, work func(client int)) {
	n.t.Helper()
	var working sync.WaitGroup
	defer working.Wait()
	for client := range clients {
		working.Go(func() { work(client) })
	}
	if n.between > 0 {
		n.work(ctx)
	}
	for _, in := range n.world.instances {
		in.Mend()
	}
}

func (n *nemesis) work(ctx context.Context) {
	n.struck = map[string]int{}
	for _, in := range n.world.instances {
		in.BreakUp()
	}
	var wheel []fault
	for _, f := range n.faults {
		for range f.weight {
			wheel = append(wheel, f)
		}
	}
	n.pause(ctx, 2*n.between)
	for next := 0; ctx.Err() == nil; next++ {
		if next%len(wheel) == 0 { // every fault happens once in each turn
			n.r.Shuffle(len(wheel), func(i, j int) { wheel[i], wheel[j] = wheel[j], wheel[i] })
		}
		f := wheel[next%len(wheel)]
		if f.ends && n.spares != nil && n.spares() {
			continue
		}
		n.struck[f.name]++
		f.strike(ctx, n.world.instances[n.r.IntN(len(n.world.instances))])
		n.pause(ctx, 2*n.between)
	}
}

// pause waits for a random time up to most, or until ctx ends.
func (n *nemesis) pause(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(n.r.Int64N(int64(most)))):
	}
}

// usual returns the faults of every run.
func (n *nemesis) usual() []fault {
	database := func(stop func(*pgtest.Cluster)) func(context.Context, *instance) {
		return func(ctx context.Context, _ *instance) {
			database := n.world.databases[0]
			stop(database)
			n.pause(ctx, 500*time.Millisecond)
			database.Start()
		}
	}
	return []fault{
		{"app killed (SIGKILL)", 4, true, func(ctx context.Context, in *instance) {
			in.Kill(n.t)
			n.pause(ctx, 3*lease/2)
			in.Start()
			in.BreakUp()
		}},
		{"app stopped (SIGTERM)", 2, true, func(_ context.Context, in *instance) {
			in.Stop(n.t)
			in.Start()
			in.BreakUp()
		}},
		{"app paused (SIGSTOP)", 4, false, func(ctx context.Context, in *instance) {
			require.NoError(n.t, in.Pause())
			n.pause(ctx, 4*lease) // leases run out
			require.NoError(n.t, in.Continue())
		}},
		{"all clients cut off", 3, false, func(_ context.Context, in *instance) { in.Front.CutAll() }},
		{"all clients left without a word", 1, false, func(_ context.Context, in *instance) { in.Front.SilenceAll() }},
		{"app cut off from the database", 3, false, func(_ context.Context, in *instance) { in.Back.CutAll() }},
		{"app left without a word of the database", 3, false, func(_ context.Context, in *instance) { in.Back.SilenceAll() }},
		{"database stopped (fast)", 1, false, database(func(c *pgtest.Cluster) { c.Stop(pgtest.Fast) })},
		{"database stopped (immediate)", 1, false, database(func(c *pgtest.Cluster) { c.Stop(pgtest.Immediate) })},
		{"database killed (SIGKILL)", 2, false, database((*pgtest.Cluster).Kill)},
	}
}

// total counts the faults by name: those that it has caused, and what the proxies have done to connections.
func (n *nemesis) total() map[string]int {
	all := maps.Clone(n.struck)
	if all == nil { // there were none
		return nil
	}
	for _, in := range n.world.instances {
		front, back := in.Front.Stats(), in.Back.Stats()
		all["client's connection cut"] += front.Cut
		all["client's connection doubled"] += in.twice.Stats().Doubled
		all["client's connection silent"] += front.Silenced
		all["database connection cut"] += back.Cut
		all["database connection silent"] += back.Silenced
	}
	return all
}
