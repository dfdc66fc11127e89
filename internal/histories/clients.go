package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

// clients send requests at the same time. The check sees what became of each.
type clients struct {
	world      *world
	check      check
	seed       uint64
	mix        func(r *rand.Rand, n int) intent // makes kind, method, amount and key of an intent
	network    *http.Transport
	sequential bool // every request is sent once, and every client waits for its answer

	tokens  map[string]string // by subject
	refunds []string          // paths, those of the principals by turns

	sent, answered, hungUp atomic.Int64 // requests
	decided, settled       atomic.Int64 // decisions of operators, and settlements that were accepted
}

// check is what is done with the operations of clients: a history is recorded, or a long run is counted.
type check interface {
	// record calls do, which sends an operation of an intent and sets its results.
	record(i intent, o Op, do func(o *Op)) Op
}

// payments is how many payments each principal makes before the run. They are refunded.
const payments = 8

func newClients(t *testing.T, w *world, seed uint64, c check, mix func(r *rand.Rand, n int) intent) *clients {
	t.Helper()
	cs := &clients{world: w, check: c, seed: seed, mix: mix, network: &http.Transport{}, tokens: map[string]string{}}
	t.Cleanup(cs.network.CloseIdleConnections)
	for n := range principals {
		cs.tokens[subject(n)] = token(t, subject(n), "customer", "seller")
	}
	for n := range operators {
		cs.tokens[office(n)] = token(t, office(n), "operator")
	}
	for n := range principals * payments {
		i := cs.preparation(n)
		var path string
		for _, in := range w.instances { // on every database, if there are more
			path = in.Paid(t, cs.tokens[i.caller], i.key)
		}
		cs.refunds = append(cs.refunds, path)
	}
	return cs
}

// preparation is a payment that is made before the run.
func (c *clients) preparation(n int) intent {
	return intent{caller: subject(n % principals), key: c.world.key(fmt.Sprint("preparation-", n), 0)}
}

// way is the way of a request to an app.
type way struct {
	instance int
	twice    bool          // a proxy sends it twice
	patience time.Duration // after which the client hangs up
}

const (
	twice        = 16 // one request in 16 is sent twice by a proxy
	hangsUp      = 50 // the client of one request in 50 soon hangs up
	answerWithin = deadline + time.Second
)

// anywhere returns a way to a random instance.
func (c *clients) anywhere(r *rand.Rand) way {
	w := way{r.IntN(len(c.world.instances)), !c.sequential && r.IntN(twice) == 0, answerWithin}
	if !c.sequential && r.IntN(hangsUp) == 0 {
		w.patience = time.Duration(r.IntN(20_000)) * time.Microsecond
	}
	return w
}

// request makes the request of a command. All apps have one host name, because an intent belongs to the host that it is sent
// to.
func (c *clients) request(caller, path, key, body string) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://shop"+path, strings.NewReader(body))
	if err != nil {
		panic(err) // no path of ours has it
	}
	r.Header.Set("Authorization", "Bearer "+c.tokens[caller])
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(wire.HeaderKey, key)
	return r
}

// send sends the command of an intent once, or another one by mistake.
func (c *clients) send(client int, w way, i intent, other bool) Op {
	o, _ := c.sendRequest(client, w, i, other, c.request(i.caller, i.path, i.key, i.body(other)))
	return o
}

// sendRequest sends r, which has the command of an intent, or another one.
func (c *clients) sendRequest(client int, w way, i intent, other bool, r *http.Request) (o Op, err error) {
	o = i.op(Request, client)
	o.Command, o.Twice, o.Ends = i.command(other), w.twice, i.endsItself()
	c.sent.Add(1)
	o = c.check.record(i, o, func(o *Op) {
		if err = c.exchange(w, r, o); err == nil {
			c.answered.Add(1)
		}
	})
	return o, err
}

// exchange sends a request, and sets the answer if it comes whole.
func (c *clients) exchange(w way, r *http.Request, o *Op) (err error) {
	ctx, cancel := context.WithTimeout(r.Context(), w.patience)
	defer cancel()
	defer func() {
		if o.Error = ""; err != nil {
			o.Error = err.Error()
		}
		if err != nil && ctx.Err() != nil && w.patience < answerWithin {
			c.hungUp.Add(1)
		}
	}()
	r = r.Clone(ctx)
	r.URL.Host = c.world.instances[w.instance].address(w.twice)
	response, err := c.network.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	a := &Answer{
		Status: response.StatusCode, Result: response.Header.Get(wire.HeaderResult), Body: string(body), header: response.Header,
	}
	var problem struct{ Code core.Code }
	if a.Status >= http.StatusBadRequest && json.Unmarshal(body, &problem) == nil {
		a.Code = problem.Code
	}
	o.Answer = a
	return nil
}

// each lets clients do something with each of the first intents.
func (c *clients) each(clients, intents int, do func(r *rand.Rand, client int, i intent)) {
	var next atomic.Int64
	var working sync.WaitGroup
	for client := range clients {
		working.Go(func() {
			r := c.random(4, client)
			for n := int(next.Add(1)) - 1; n < intents; n = int(next.Add(1)) - 1 {
				do(r, client, c.intent(n))
			}
		})
	}
	working.Wait()
}

// random makes a source of random numbers: of a client in a part of the run.
func (c *clients) random(part uint64, client int) *rand.Rand {
	return rand.New(rand.NewPCG(c.seed, part<<40+uint64(client)))
}
