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
		c.tokens = append(c.tokens, token(t, principal(n).Subject, "customer", "seller"))
		c.refunds = append(c.refunds, c.pay(t, n))
	}
	for n := range operators {
		c.offices = append(c.offices, token(t, fmt.Sprint("operator-", n), "operator"))
	}
	n := &nemesis{
		world: w, clients: c, r: rand.New(rand.NewPCG(o.seed, 2<<40)), faults: map[string]int{},
		client: o.clients + settlers, pauses: o.length * 3 / 10,
	}
	ctx, stop := context.WithTimeout(t.Context(), o.length)
	defer stop()
	var working sync.WaitGroup
	for client := range o.clients {
		working.Go(func() { c.work(ctx, client) })
	}
	working.Go(func() { c.operate(ctx, o.clients) })
	if !o.calm {
		n.work(t, ctx)
	}
	working.Wait()
	w.calm(t)
	c.finish(o.clients)
	c.audit(t, o.clients+settlers)
	return History{Seed: o.seed, Ops: c.recorder.ops}, n.faults
}

// pay makes a payment that there is always something left of, and returns the path of its refunds.
func (c *clients) pay(t *testing.T, n int) string {
	t.Helper()
	var path string
	for i := range c.world.instances { // on every database, if there are more
		const body = `{"order_id":"o","amount":"9999999999.00","currency":"EUR","method":"pm_ok"}`
		answer, err := exchange(c.world.instances[i].Front.Addr(), "/v1/payments", body, c.tokens[n], "the-payment")
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

// finish repeats each command until it has come to an end, where it does within a few leases. What is unknown then is
// settled, if it can be by now.
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
	if i.method == "pm_hang" {
		tries = 1 // each takes until the deadline
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
	pauses  time.Duration
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
			in.Kill(t)
			n.pause(1500)
			in.Start()
			in.breakUp()
		}},
		{"app stopped", 2, func(in *instance) {
			in.Stop(t)
			in.Start()
			in.breakUp()
		}},
		{"app paused", 4, func(in *instance) {
			require.NoError(t, in.Pause())
			n.pause(int(n.pauses.Milliseconds()))
			require.NoError(t, in.Continue())
		}},
		{"clients cut off", 3, func(in *instance) { in.Front.CutAll() }},
		{"clients left without a word", 1, func(in *instance) { in.Front.SilenceAll() }},
		{"app cut off from its database", 3, func(in *instance) { in.Back.CutAll() }},
		{"app left without a word of its database", 3, func(in *instance) { in.Back.SilenceAll() }},
		{"database stopped", 1, database(func(c *pgtest.Cluster) { c.Stop(pgtest.Fast) })},
		{"database stopped at once", 1, database(func(c *pgtest.Cluster) { c.Stop(pgtest.Immediate) })},
		{"database killed", 1, database((*pgtest.Cluster).Kill)},
		{"retention ended", 6, func(*instance) { n.expire(t) }},
	}
	if n.world.standby != nil {
		list = append(list, fault{"failover", 4, func(*instance) { n.world.failOver(t) }})
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
		n.faults["request doubled"] += in.twice.Stats().Doubled
		n.faults["client's connection cut"] += in.Front.Stats().Cut
		n.faults["database connection cut"] += in.Back.Stats().Cut
		n.faults["database connection silent"] += in.Back.Stats().Silenced
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
