package histories

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

// options are of a run.
type options struct {
	seed     uint64
	clients  int
	faults   time.Duration // from one to the next, on average; 0: none, and no connection breaks
	length   time.Duration // of the part with faults, of a history
	requests int64         // to send before the faults end, of a long run
}

// generator has the clients of a history, and records it. They use a few keys at a time, and repeat them often enough for
// repeats to meet, but not so often that the history of a key gets too large to be checked.
type generator struct {
	*clients
	*recorder
	begun atomic.Int64 // requests that clients have begun
}

const (
	perKey = 15 // requests, on average
	alive  = 4  // keys at a time
)

// generate runs clients, operators and faults, and returns their history and, at its end, the effects. faults counts the
// faults by their names.
func generate(t *testing.T, w *world, o options) (h History, faults map[string]int) {
	t.Helper()
	r := &recorder{began: time.Now()}
	g := &generator{recorder: r, clients: newClients(t, w, o.seed, r, ofHistory)}
	g.sequential = o.faults <= 0
	g.network.DisableKeepAlives = true // net/http would send a request a second time by itself if a kept connection breaks
	n := &nemesis{t: t, world: w, r: g.random(2, 0), between: o.faults}
	n.faults = append(n.usual(), fault{name: "retention ended", weight: 6, strike: func(context.Context, *instance) {
		g.expire(t, n.r, o.clients+settlers)
	}})
	if !w.timed.IsZero() {
		refuse := func(context.Context, *instance) { g.refuse(t, n.r, o.clients+settlers) }
		n.faults = append(n.faults, fault{name: "keys refused", weight: 4, strike: refuse})
	}
	if w.standby != nil {
		failover := func(context.Context, *instance) { w.failOver(t) }
		n.faults = append(n.faults, fault{name: "failover", weight: 4, strike: failover})
	}
	ctx, stop := context.WithTimeout(t.Context(), o.length)
	defer stop()
	n.disturb(ctx, o.clients+1, func(client int) {
		if client < o.clients {
			g.work(ctx, client)
		} else {
			g.operate(ctx, client)
		}
	})
	for _, in := range w.instances {
		in.Kill(t) // with the handlers that still run
		in.Start()
	}
	g.sequential = true
	g.each(o.clients, g.used(), g.end)
	g.audit(t, o.clients+settlers)
	return History{Seed: o.seed, Ops: g.ops}, n.total()
}

// used returns how many intents the clients have used so far, or use now.
func (g *generator) used() int { return int(g.begun.Load())/perKey + alive }

// inUse returns a random one of the intents that are in use when so many requests have begun.
func (g *generator) inUse(r *rand.Rand, begun int64) intent {
	return g.intent(int(begun)/perKey + r.IntN(alive))
}

// work sends one request after the other until ctx ends.
func (g *generator) work(ctx context.Context, client int) {
	r := g.random(1, client)
	for ctx.Err() == nil {
		i := g.inUse(r, g.begun.Add(1))
		o := g.send(client, g.anywhere(r), i, r.IntN(8) == 0)
		pause := 80
		if o.Answer == nil {
			pause = 400 // requests without an answer make a history hard to check
		}
		rest(ctx, r, pause)
	}
}

// rest waits for up to so many milliseconds.
func rest(ctx context.Context, r *rand.Rand, most int) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(r.IntN(most)) * time.Millisecond):
	}
}

// end repeats a command until it has come to an end, for a few leases at most. An operation that is unknown then is settled,
// if its time is over.
func (g *generator) end(r *rand.Rand, client int, i intent) {
	tries := 5
	if i.method == "pm_hang" {
		tries = 1 // each try takes until the deadline
	}
	for range tries {
		w := g.anywhere(r)
		switch a := g.send(client, w, i, false).Answer; {
		case a == nil, a.Status >= 500, a.Code == core.CodeInFlight:
			time.Sleep(lease / 3)
		case a.Code != core.CodeOutcomeUnknown:
			return
		default:
			settled := g.settle(client, r.IntN(operators), w, i, g.decide(r)).Answer
			if settled == nil || settled.Status != http.StatusOK {
				return // not yet
			}
		}
	}
}

// audit counts the effects of each key.
func (g *generator) audit(t *testing.T, client int) {
	t.Helper()
	all, err := g.world.effects(t.Context())
	require.NoError(t, err)
	for _, i := range g.keys(g.used()) {
		g.record(i, i.op(Audit, client), func(o *Op) {
			if e := all[i.operation()]; e != nil {
				o.Ledger, o.Provider = len(e.entries), e.charges
			}
		})
	}
}

// keys returns one intent of each key of the first intents.
func (g *generator) keys(intents int) (list []intent) {
	known := make(map[string]bool)
	for n := range intents {
		i := g.intent(n)
		if !known[i.name()] {
			known[i.name()] = true
			list = append(list, i)
		}
	}
	return list
}

// refuse refuses first requests with some of the keys that are in use, and with all that are older.
func (g *generator) refuse(t *testing.T, r *rand.Rand, client int) {
	t.Helper()
	last := max(0, g.used()-r.IntN(2*alive)) / 2
	call := g.now()
	require.NoError(t, g.world.refuse(t.Context(), last))
	for _, i := range g.keys(2 * (last + 1)) {
		g.record(i, i.op(Refuse, client), func(o *Op) { o.Call = call })
	}
}

// expire ends the retention of a key that is in use.
func (g *generator) expire(t *testing.T, r *rand.Rand, client int) {
	t.Helper()
	i := g.inUse(r, max(0, g.begun.Load()-int64(r.IntN(3*perKey))))
	g.record(i, i.op(Expire, client), func(o *Op) {
		var err error
		o.Expired, err = g.world.expire(t.Context(), i.id())
		require.NoError(t, err)
	})
}

// recorder is the check of a history: it records it, and remembers for which intents a client got outcome_unknown.
type recorder struct {
	began   time.Time
	mu      sync.Mutex
	ops     []Op
	unknown []intent
}

func (r *recorder) now() int64 { return int64(time.Since(r.began)) }

// record implements [check]: it records an operation with its begin and end.
func (r *recorder) record(i intent, o Op, do func(o *Op)) Op {
	o.Call = r.now()
	do(&o)
	o.Return = r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
	same := func(other intent) bool { return i.name() == other.name() }
	switch a := o.Answer; {
	case a == nil:
	case o.Kind == Settle && a.Status == http.StatusOK:
		r.unknown = slices.DeleteFunc(r.unknown, same)
	case o.Kind != Request || slices.ContainsFunc(r.unknown, same):
	case a.Code == core.CodeOutcomeUnknown, o.Recovery == core.Park && a.Result == wire.ResultUnknown:
		r.unknown = append(r.unknown, i)
	}
	return o
}

// anUnknown returns one of the unknown intents, if there is one.
func (r *recorder) anUnknown(random *rand.Rand) (i intent, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unknown) == 0 {
		return intent{}, false
	}
	return r.unknown[random.IntN(len(r.unknown))], true
}
