package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core"
)

// unknowns are the intents for which a client got outcome_unknown.
type unknowns struct {
	mu   sync.Mutex
	list []intent
}

func (u *unknowns) add(i intent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.ContainsFunc(u.list, sameKey(i)) {
		u.list = append(u.list, i)
	}
}

func (u *unknowns) remove(i intent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = slices.DeleteFunc(u.list, sameKey(i))
}

// choose returns one of them, if there is one.
func (u *unknowns) choose(r *rand.Rand) (i intent, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) == 0 {
		return intent{}, false
	}
	return u.list[r.IntN(len(u.list))], true
}

// settlers is how many record what operate does: the operators, and a client.
const settlers = operators + 1

// operate lets operators settle operations until ctx ends: mostly unknown ones, sometimes too early, and now and then one
// that is not unknown. Often two operators decide at the same time, while a client repeats its command. first is the number
// of the first of the three in the history.
func (c *clients) operate(ctx context.Context, first int) {
	r := rand.New(rand.NewPCG(c.seed, 3<<40))
	for ctx.Err() == nil {
		i, isUnknown := c.unknown.choose(r)
		if !isUnknown || r.IntN(4) == 0 {
			i = c.intent(r, c.sent.Load())
		}
		var deciding sync.WaitGroup
		for office := range 1 + r.IntN(operators) {
			d, w := c.decide(r), c.anywhere(r)
			deciding.Go(func() { c.settle(first+office, office, w, i, d) })
		}
		if r.IntN(2) == 0 {
			w := c.anywhere(r)
			deciding.Go(func() { c.send(first+operators, w, i, false) })
		}
		deciding.Wait()
		rest(ctx, r, 400)
	}
}

// ruling is an operator's decision. The operator does not ask the provider: the test is only that one decision counts.
type ruling struct {
	key, body string
	answer    *Answer // of repeats; nil: not applied
}

func (c *clients) decide(r *rand.Rand) ruling {
	n := c.settled.Add(1)
	d := ruling{key: c.world.key(fmt.Sprint("settlement-", n), 2e5)} // a key that is younger than all that are refused
	switch r.IntN(4) {
	case 0:
		d.body = `{"outcome":"not_applied","reason":"nothing was found"}` // refused where a step has finished
	case 3:
		d.body = `{"outcome":"not_applied","reason":"it was given back","undone":"all of it"}`
	case 1:
		d.answer = &Answer{Status: http.StatusCreated, Body: fmt.Sprintf(`{"id":"settled-%d"}`, n)}
		d.body = fmt.Sprintf(`{"outcome":"applied","reason":"it was found","answer":%s}`, d.answer.Body)
	default:
		d.answer = &Answer{Status: http.StatusPaymentRequired, Body: fmt.Sprintf(`{"code":"settled-%d"}`, n)}
		d.body = fmt.Sprintf(`{"outcome":"applied","reason":"it was refused","answer":{"status":402,"body":%s}}`, d.answer.Body)
	}
	return d
}

// settle sends a settlement until there is an answer to it, a few times at most, and records it as one operation.
func (c *clients) settle(client, office int, w way, i intent, d ruling) Op {
	path := "/v1/operations/" + i.Operation() + "/settle"
	o := Op{Kind: Settle, Client: client, Key: nameOf(i), Recovery: i.Kind.Recovery(), Settled: d.answer, Twice: w.twice}
	return c.recorder.record(o, func(o *Op) {
		for try := range 3 {
			if try > 0 {
				o.Twice = true
				time.Sleep(100 * time.Millisecond)
			}
			answer, err := exchange(c.address(w), path, d.body, c.offices[office], d.key)
			if err != nil {
				o.Error = err.Error()
				continue
			}
			o.Answer, o.Error = answer, ""
			if answer.Status < 500 && answer.Code != core.CodeInFlight {
				break
			}
		}
		if o.Answer != nil && o.Answer.Status == http.StatusOK {
			c.unknown.remove(i)
		}
	})
}
