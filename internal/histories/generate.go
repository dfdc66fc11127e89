package histories

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/pgtest"
)

// options are of a run.
type options struct {
	seed    uint64
	length  time.Duration // of the part with faults
	clients int
	calm    bool // without faults
}

// generate lets a history happen, and returns it with what is left in the end. faults counts the faults by their names.
func generate(t *testing.T, w *world, o options) (h History, faults map[string]int) {
	t.Helper()
	c := &clients{world: w, recorder: &recorder{began: time.Now()}, seed: o.seed}
	for n := range principals {
		c.tokens = append(c.tokens, token(t, n))
		c.refunds = append(c.refunds, c.pay(t, n))
	}
	n := &nemesis{world: w, clients: c, r: rand.New(rand.NewPCG(o.seed, 2<<40)), faults: map[string]int{}, client: o.clients}
	ctx, stop := context.WithTimeout(t.Context(), o.length)
	defer stop()
	var working sync.WaitGroup
	for client := range o.clients {
		working.Go(func() { c.work(ctx, client) })
	}
	if !o.calm {
		n.work(t, ctx)
	}
	working.Wait()
	w.calm()
	c.settle(o.clients)
	c.audit(t, o.clients+1)
	return History{Seed: o.seed, Ops: c.recorder.ops}, n.faults
}

// pay makes a payment that there is always something left of, and returns the path of its refunds.
func (c *clients) pay(t *testing.T, n int) string {
	t.Helper()
	var path string
	for i := range c.world.instances { // on every database, if there are more
		const body = `{"order_id":"o","amount":"9999999999.00","currency":"EUR","method":"pm_ok"}`
		answer, err := exchange(c.world.instances[i].front.Addr(), "/v1/payments", body, c.tokens[n], "the-payment")
		require.NoError(t, err)
		require.Equal(t, 201, answer.Status, answer.Body)
		var payment struct{ ID string }
		answer.decode(t, &payment)
		path = "/v1/payments/" + payment.ID + "/refunds"
	}
	return path
}

// intents are those that were sent.
func (c *clients) intents() (list []intent) {
	for n := range int(c.sent.Load())/perKey + alive {
		list = append(list, intentOf(c.seed, n, c.refunds))
	}
	return list
}

// settle repeats each command until it has come to an end, where it does within a few leases.
func (c *clients) settle(clients int) {
	intents := make(chan intent)
	var settling sync.WaitGroup
	for client := range clients {
		settling.Go(func() {
			for i := range intents {
				for range 5 {
					a := c.send(client, client%len(c.world.instances), i, false).Answer
					if a != nil && a.Status < 500 && a.Code != core.CodeInFlight {
						break
					}
					time.Sleep(lease / 3)
				}
			}
		})
	}
	for _, i := range c.intents() {
		intents <- i
	}
	close(intents)
	settling.Wait()
}

// audit counts the effects of each key.
func (c *clients) audit(t *testing.T, client int) {
	t.Helper()
	ledger, err := c.world.effects(t.Context(), "ledger", "operation_id")
	require.NoError(t, err)
	provider, err := c.world.effects(t.Context(), "provider_charges", "operation")
	require.NoError(t, err)
	audited := make(map[string]bool)
	for _, i := range c.intents() {
		if audited[i.key] {
			continue
		}
		audited[i.key] = true
		operation := core.RecordID(principal(i.principal), i.header).String()
		c.recorder.record(Op{Kind: Audit, Client: client, Key: i.key, Recovery: i.recovery}, func(o *Op) {
			o.Ledger, o.Provider = ledger[operation], provider[operation]
		})
	}
}

// nemesis brings the faults, one after the other, from the test's own goroutine.
type nemesis struct {
	world   *world
	clients *clients
	r       *rand.Rand
	faults  map[string]int
	client  int // its number as one who records
}

// work goes on until ctx ends, and leaves everything running.
func (n *nemesis) work(t *testing.T, ctx context.Context) {
	t.Helper()
	for _, in := range n.world.instances {
		in.breakUp()
	}
	type fault struct {
		name   string
		weight int
		strike func(in *instance)
	}
	database := func(stop func(c *pgtest.Cluster)) func(*instance) {
		return func(*instance) {
			stop(n.world.databases[0])
			n.pause(500)
			n.world.databases[0].Start()
		}
	}
	list := []fault{
		{"app killed", 4, func(in *instance) {
			in.process.Kill(t)
			n.pause(1500)
			in.start()
			in.breakUp()
		}},
		{"app stopped", 2, func(in *instance) {
			in.process.Stop(t)
			in.start()
			in.breakUp()
		}},
		{"app paused", 4, func(in *instance) {
			require.NoError(t, in.process.Pause())
			n.pause(2500)
			require.NoError(t, in.process.Continue())
		}},
		{"clients cut off", 3, func(in *instance) { in.front.CutAll() }},
		{"app cut off from its database", 3, func(in *instance) { in.back.CutAll() }},
		{"database stopped", 1, database(func(c *pgtest.Cluster) { c.Stop(pgtest.Fast) })},
		{"database stopped at once", 1, database(func(c *pgtest.Cluster) { c.Stop(pgtest.Immediate) })},
		{"database killed", 1, database((*pgtest.Cluster).Kill)},
		{"retention ended", 6, func(*instance) { n.expire(t) }},
	}
	var wheel []fault
	for _, f := range list {
		for range f.weight {
			wheel = append(wheel, f)
		}
	}
	for ctx.Err() == nil {
		n.pause(400)
		f := wheel[n.r.IntN(len(wheel))]
		n.faults[f.name]++
		f.strike(n.world.instances[n.r.IntN(len(n.world.instances))])
	}
	for _, in := range n.world.instances {
		n.faults["client's connection cut"] += in.front.Stats().Cut
		n.faults["database connection cut"] += in.back.Stats().Cut
	}
}

// pause waits for up to so many milliseconds.
func (n *nemesis) pause(most int) { time.Sleep(time.Duration(n.r.IntN(most)) * time.Millisecond) }

// expire ends the retention of a key that is in use.
func (n *nemesis) expire(t *testing.T) {
	t.Helper()
	i := n.clients.intent(n.r, max(0, n.clients.sent.Load()-int64(n.r.IntN(3*perKey))))
	id := core.RecordID(principal(i.principal), i.header)
	n.clients.recorder.record(Op{Kind: Expire, Client: n.client, Key: i.key, Recovery: i.recovery}, func(o *Op) {
		var err error
		o.Expired, err = n.world.expire(t.Context(), id)
		require.NoError(t, err)
	})
}
