package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/harness"
	"github.com/auth19/idem/internal/pgtest"
)

// options are of a run.
type options struct {
	seed    uint64
	length  time.Duration // of the part with faults
	clients int
	calm    bool // without faults
}

// generate runs clients, operators and faults, and returns their history and, at its end, the effects. faults counts the
// faults by their names.
func generate(t *testing.T, w *world, o options) (h History, faults map[string]int) {
	t.Helper()
	c := &clients{world: w, recorder: &recorder{began: time.Now()}, seed: o.seed, tokens: map[string]string{}}
	for n := range principals {
		c.tokens[subject(n)] = token(t, subject(n), "customer", "seller")
		var refunds string
		for _, in := range w.instances { // on every database, if there are more
			refunds = in.Paid(t, c.tokens[subject(n)], w.key("the-payment", 0))
		}
		c.refunds = append(c.refunds, refunds)
	}
	for n := range operators {
		c.offices = append(c.offices, token(t, fmt.Sprint("operator-", n), "operator"))
	}
	n := &harness.Nemesis{
		T: t, R: rand.New(rand.NewPCG(o.seed, 2<<40)), Instances: w.apps(), Between: 200 * time.Millisecond,
		Database: func() *pgtest.Cluster { return w.databases[0] },
	}
	n.Faults = append(n.Usual(1500*time.Millisecond, o.length*3/10, map[string]int{
		"app paused (SIGSTOP)": 4, "all clients cut off": 3, "app cut off from the database": 3,
		"app left without a word of the database": 3,
	}), harness.Fault{Name: "retention ended", Weight: 6, Strike: func(context.Context, *harness.Instance) {
		c.expire(t, n.R, o.clients+settlers)
	}})
	if !w.timed.IsZero() {
		refuse := func(context.Context, *harness.Instance) { c.refuse(t, n.R, o.clients+settlers) }
		n.Faults = append(n.Faults, harness.Fault{Name: "keys refused", Weight: 4, Strike: refuse})
	}
	if w.standby != nil {
		n.Faults = append(n.Faults, harness.Fault{Name: "failover", Weight: 4, Strike: func(context.Context, *harness.Instance) {
			w.failOver(t)
		}})
	}
	ctx, stop := context.WithTimeout(t.Context(), o.length)
	defer stop()
	var working sync.WaitGroup
	for client := range o.clients {
		working.Go(func() { c.work(ctx, client) })
	}
	working.Go(func() { c.operate(ctx, o.clients) })
	if !o.calm {
		n.Work(ctx)
	}
	working.Wait()
	w.calm(t)
	c.finish(o.clients)
	c.audit(t, o.clients+settlers)
	return History{Seed: o.seed, Ops: c.recorder.ops}, w.struck(n.Struck)
}

// intents are those that were sent.
func (c *clients) intents() (list []intent) {
	for n := range int(c.sent.Load())/perKey + alive {
		list = append(list, c.intentOf(n))
	}
	return list
}

// finish repeats each command until it has come to an end, for a few leases at most. Operations that are unknown then are
// settled, if their time is over.
func (c *clients) finish(clients int) {
	intents := make(chan intent)
	var finishing sync.WaitGroup
	for client := range clients {
		finishing.Go(func() {
			r := rand.New(rand.NewPCG(c.seed, 4<<40+uint64(client)))
			for i := range intents {
				c.end(r, client, i)
			}
		})
	}
	for _, i := range c.intents() {
		intents <- i
	}
	close(intents)
	finishing.Wait()
}

// end brings a command to its end.
func (c *clients) end(r *rand.Rand, client int, i intent) {
	tries := 5
	if i.Method == "pm_hang" {
		tries = 1 // each try takes until the deadline
	}
	for range tries {
		w := way{instance: client % len(c.world.instances)}
		switch a := c.send(client, w, i, false).Answer; {
		case a == nil, a.Status >= 500, a.Code == core.CodeInFlight:
			time.Sleep(lease / 3)
		case a.Code != core.CodeOutcomeUnknown:
			return
		default:
			settled := c.settle(client, r.IntN(operators), w, i, c.decide(r)).Answer
			if settled == nil || settled.Status != http.StatusOK {
				return // not yet
			}
		}
	}
}

// audit counts the effects of each key.
func (c *clients) audit(t *testing.T, client int) {
	t.Helper()
	ledger, provider, err := c.world.effects(t.Context())
	require.NoError(t, err)
	audited := make(map[string]bool)
	for _, i := range c.intents() {
		if audited[nameOf(i)] {
			continue
		}
		audited[nameOf(i)] = true
		o := Op{Kind: Audit, Client: client, Key: nameOf(i), Recovery: i.Kind.Recovery()}
		c.recorder.record(o, func(o *Op) {
			o.Ledger, o.Provider = ledger[i.Operation()], provider[i.Operation()]
		})
	}
}

// refuse refuses first requests with some of the keys that are in use, and with all that are older.
func (c *clients) refuse(t *testing.T, r *rand.Rand, client int) {
	t.Helper()
	last := max(0, int(c.sent.Load())/perKey+alive-r.IntN(2*alive)) / 2
	call := c.recorder.now()
	require.NoError(t, c.world.refuse(t.Context(), last))
	known := make(map[string]bool)
	for n := range 2 * (last + 1) {
		i := c.intentOf(n)
		if known[nameOf(i)] {
			continue
		}
		known[nameOf(i)] = true
		o := Op{Kind: Refuse, Client: client, Key: nameOf(i), Recovery: i.Kind.Recovery()}
		c.recorder.record(o, func(o *Op) { o.Call = call })
	}
}

// expire ends the retention of a key that is in use.
func (c *clients) expire(t *testing.T, r *rand.Rand, client int) {
	t.Helper()
	i := c.intent(r, max(0, c.sent.Load()-int64(r.IntN(3*perKey))))
	c.recorder.record(Op{Kind: Expire, Client: client, Key: nameOf(i), Recovery: i.Kind.Recovery()}, func(o *Op) {
		var err error
		o.Expired, err = c.world.expire(t.Context(), i.ID())
		require.NoError(t, err)
	})
}
