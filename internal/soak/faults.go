package main

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/pgtest"
)

// nemesis brings the faults, one after the other.
type nemesis struct {
	soak   *soak
	r      *rand.Rand
	struck map[string]int // how often, by the fault's name
	total  atomic.Int64
}

// fault is one that comes now and then, weight times as often as others.
type fault struct {
	name   string
	weight int
	ends   bool // the life of an app
	strike func(ctx context.Context, in *instance)
}

// quiet is the last part of a run, in which no app is killed: what its memory grows to is seen then.
const quiet = 1. / 3

// work breaks connections and brings faults until ctx ends, and leaves everything whole and running.
func (n *nemesis) work(ctx context.Context) {
	s := n.soak
	for _, in := range s.instances {
		in.breakUp()
	}
	var wheel []fault
	for _, f := range n.faults() {
		for range f.weight {
			wheel = append(wheel, f)
		}
	}
	n.pause(ctx, 2*s.faults)
	for next := 0; ctx.Err() == nil; next++ {
		if next%len(wheel) == 0 { // all of them in each turn
			n.r.Shuffle(len(wheel), func(i, j int) { wheel[i], wheel[j] = wheel[j], wheel[i] })
		}
		f := wheel[next%len(wheel)]
		if f.ends && float64(s.wire.requests.Load()) > (1-quiet)*float64(s.requests) {
			continue
		}
		n.struck[f.name]++
		n.total.Add(1)
		f.strike(ctx, s.instances[n.r.IntN(len(s.instances))])
		n.pause(ctx, 2*s.faults)
	}
	for _, in := range s.instances {
		in.mend()
	}
}

// pause waits for up to so long.
func (n *nemesis) pause(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(most)):
	}
}

func (n *nemesis) faults() []fault {
	t := n.soak.t
	database := func(stop func(*pgtest.Cluster)) func(context.Context, *instance) {
		return func(ctx context.Context, _ *instance) {
			stop(n.soak.database)
			n.pause(ctx, 500*time.Millisecond)
			n.soak.database.Start()
		}
	}
	return []fault{
		{"app killed (SIGKILL)", 4, true, func(ctx context.Context, in *instance) {
			in.Kill(t)
			n.pause(ctx, time.Second)
			in.Start()
			in.breakUp()
		}},
		{"app stopped (SIGTERM)", 2, true, func(_ context.Context, in *instance) {
			in.Stop(t)
			in.Start()
			in.breakUp()
		}},
		{"app paused (SIGSTOP)", 2, false, func(ctx context.Context, in *instance) {
			require.NoError(t, in.Pause())
			n.pause(ctx, 4*time.Second) // leases run out
			require.NoError(t, in.Continue())
		}},
		{"all clients cut off", 2, false, func(_ context.Context, in *instance) { in.Front.CutAll() }},
		{"all clients left without a word", 1, false, func(_ context.Context, in *instance) { in.Front.SilenceAll() }},
		{"app cut off from the database", 2, false, func(_ context.Context, in *instance) { in.Back.CutAll() }},
		{"app left without a word of the database", 1, false, func(_ context.Context, in *instance) { in.Back.SilenceAll() }},
		{"database stopped (fast)", 1, false, database(func(c *pgtest.Cluster) { c.Stop(pgtest.Fast) })},
		{"database stopped (immediate)", 1, false, database(func(c *pgtest.Cluster) { c.Stop(pgtest.Immediate) })},
		{"database killed (SIGKILL)", 2, false, database((*pgtest.Cluster).Kill)},
	}
}
