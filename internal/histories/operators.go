package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/auth19/idem/core"
)

// settlers is how many record what operate does: the operators, and a client.
const settlers = operators + 1

// operate lets operators settle operations until ctx ends: mostly unknown ones, sometimes too early, and now and then one
// that is not unknown. Often two operators decide at the same time, while a client repeats its command. first is the number
// of the first of the three in the history.
func (g *generator) operate(ctx context.Context, first int) {
	r := g.random(3, 0)
	for ctx.Err() == nil {
		i, isUnknown := g.anUnknown(r)
		if !isUnknown || r.IntN(4) == 0 {
			i = g.inUse(r, g.begun.Load())
		}
		var deciding sync.WaitGroup
		for by := range 1 + r.IntN(operators) {
			d, w := g.decide(r), g.anywhere(r)
			deciding.Go(func() { g.settle(first+by, by, w, i, d) })
		}
		if r.IntN(2) == 0 {
			w := g.anywhere(r)
			deciding.Go(func() { g.send(first+operators, w, i, false) })
		}
		deciding.Wait()
		rest(ctx, r, 400)
	}
}

// ruling is an operator's decision.
type ruling struct {
	key, body string
	answer    *Answer // of repeats; nil: not applied
}

// rule makes a decision, with a key that is younger than all that are refused.
func (c *clients) rule(answer *Answer, format string, args ...any) ruling {
	return ruling{c.world.key(fmt.Sprint("settlement-", c.decided.Add(1)), 2e5), fmt.Sprintf(format, args...), answer}
}

// decide makes any decision. The operator does not ask the provider: the test is only that one decision counts.
func (c *clients) decide(r *rand.Rand) ruling {
	switch id := r.IntN(1e9); r.IntN(4) {
	case 0: // refused where a step has finished
		return c.rule(nil, `{"outcome":"not_applied","reason":"nothing was found"}`)
	case 3:
		return c.rule(nil, `{"outcome":"not_applied","reason":"it was given back","undone":"all of it"}`)
	case 1:
		return c.applied(fmt.Sprintf(`{"id":"settled-%d"}`, id))
	default:
		a := &Answer{Status: http.StatusPaymentRequired, Body: fmt.Sprintf(`{"code":"settled-%d"}`, id)}
		return c.rule(a, `{"outcome":"applied","reason":"it was refused","answer":{"status":402,"body":%s}}`, a.Body)
	}
}

// applied decides that the provider has carried the command out.
func (c *clients) applied(body string) ruling {
	a := &Answer{Status: http.StatusCreated, Body: body}
	return c.rule(a, `{"outcome":"applied","reason":"it was found","answer":%s}`, body)
}

// settle sends a settlement until there is an answer to it, a few times at most, and records it as one operation.
func (c *clients) settle(client, by int, w way, i intent, d ruling) Op {
	o := i.op(Settle, client)
	o.Settled, o.Twice = d.answer, w.twice
	return c.check.record(i, o, func(o *Op) {
		for try := range 3 {
			if try > 0 {
				o.Twice = true
				time.Sleep(100 * time.Millisecond)
			}
			err := c.exchange(w, c.request(office(by), "/v1/operations/"+i.operation()+"/settle", d.key, d.body), o)
			if err == nil && o.Answer.Status < 500 && o.Answer.Code != core.CodeInFlight {
				break
			}
		}
		if o.Answer != nil && o.Answer.Status == http.StatusOK {
			c.settled.Add(1)
		}
	})
}
