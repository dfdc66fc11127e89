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

// unknowns are the keys whose outcome nobody knows, as far as clients were told.
type unknowns struct {
	mu   sync.Mutex
	list []unknownKey
}

type unknownKey struct {
	intent intent
	since  time.Time
}

func (u *unknowns) add(i intent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, k := range u.list {
		if k.intent.key == i.key {
			return
		}
	}
	u.list = append(u.list, unknownKey{i, time.Now()})
}

func (u *unknowns) remove(i intent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = slices.DeleteFunc(u.list, func(k unknownKey) bool { return k.intent.key == i.key })
}

// choose returns one of them; with ripe one whose lease and deadline have passed for sure.
func (u *unknowns) choose(r *rand.Rand, ripe bool) (i intent, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var from []intent
	for _, k := range u.list {
		if !ripe || time.Since(k.since) >= deadline {
			from = append(from, k.intent)
		}
	}
	if len(from) == 0 {
		return intent{}, false
	}
	return from[r.IntN(len(from))], true
}

// settlers record what operate does: the operators, and a client.
const settlers = operators + 1

// operate lets operators settle operations until ctx ends: mostly those that are due, sometimes too early ones, and those
// that are not unknown at all. Often two decide at the same time, and a client repeats its command meanwhile. first is
// the number of the first of the three as one who records.
func (c *clients) operate(ctx context.Context, first int) {
	r := rand.New(rand.NewPCG(c.seed, 3<<40))
	for ctx.Err() == nil {
		i, due := c.unknown.choose(r, r.IntN(2) == 0)
		if !due {
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
		pause := 200
		if !due {
			pause = 800
		}
		rest(ctx, r, pause)
	}
}

// ruling is what an operator says. It does not ask the provider: whichever way it decides, it decides once.
type ruling struct {
	key, body string
	answer    *Answer // of repeats; nil: not applied
}

func (c *clients) decide(r *rand.Rand) ruling {
	n := c.settled.Add(1)
	d := ruling{key: fmt.Sprint("settlement-", n)}
	switch r.IntN(3) {
	case 0:
		d.body = `{"outcome":"not_applied","reason":"nothing was found"}`
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
	path := "/v1/operations/" + core.RecordID(principal(i.principal), i.header).String() + "/settle"
	o := Op{Kind: Settle, Client: client, Key: i.key, Recovery: i.recovery, Settled: d.answer, Twice: w.twice}
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
