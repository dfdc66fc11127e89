package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core"
)

// intent is a key, and the command that it was made for.
type intent struct {
	key       string // with its principal
	principal int
	header    string
	recovery  core.Recovery
	path      string
	amount    int
	method    string
}

// sameKey reports whether another intent has the same key, perhaps for another command.
func (i intent) sameKey(other intent) bool { return i.key == other.key }

// command is what is sent: the intent's own, or another one by mistake.
func (i intent) command(other bool) (path, body string) {
	amount := i.amount
	if other {
		amount++
	}
	return i.path, fmt.Sprintf(`{"order_id":"o","amount":"%d.00","currency":"EUR","method":"%s"}`, amount, i.method)
}

// methods are how commands end, as often as they stand here: those of all recoveries, and those of one.
var (
	methods = strings.Fields(`pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok
		pm_declined pm_error pm_panic pm_unavailable pm_slow pm_hang`)
	methodsOf = map[core.Recovery][]string{
		core.Rollback: append(strings.Fields("pm_commit pm_rollback"), methods...),
		core.Resume:   append(strings.Fields("pm_lost pm_stuck pm_stuck pm_stuck pm_stuck"), methods...),
		core.Park:     methods,
	}
)

// ends reports whether the handler ends the attempt's transaction itself.
func (i intent) ends() bool { return i.method == "pm_commit" || i.method == "pm_rollback" }

// intentOf makes intent n of a seed. paths are those of the refunds of each principal.
func intentOf(seed uint64, n int, refunds []string) intent {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	i := intent{
		principal: r.IntN(principals), recovery: core.Rollback + core.Recovery(r.IntN(3)), amount: 1 + r.IntN(5),
	}
	i.method = methodsOf[i.recovery][r.IntN(len(methodsOf[i.recovery]))]
	i.header = fmt.Sprintf("key-%d-%v", n/2, i.recovery) // two principals may have the same key
	i.key = principal(i.principal).Subject + "/" + i.header
	switch i.recovery {
	case core.Rollback:
		i.path = "/v1/payments"
	case core.Resume:
		i.path = refunds[i.principal]
	default:
		i.path = "/v1/payouts"
	}
	return i
}

// clients send requests at the same time.
type clients struct {
	world    *world
	recorder *recorder
	seed     uint64
	tokens   []string // of the principals
	offices  []string // tokens of the operators
	refunds  []string
	sent     atomic.Int64
	settled  atomic.Int64 // settlements sent
	unknown  unknowns
}

// A key is sent so often that repeats meet, and not so often that its history gets too large to be checked.
const (
	perKey = 15 // requests, on average
	alive  = 4  // keys at a time
	twice  = 16 // one request in so many is doubled on its way
)

// intent is the one of the n-th request: any of those that are alive by then.
func (c *clients) intent(r *rand.Rand, n int64) intent {
	return intentOf(c.seed, int(n)/perKey+r.IntN(alive), c.refunds)
}

// work sends one request after the other until ctx ends.
func (c *clients) work(ctx context.Context, client int) {
	r := rand.New(rand.NewPCG(c.seed, 1<<40+uint64(client)))
	for ctx.Err() == nil {
		i := c.intent(r, c.sent.Add(1))
		o := c.send(client, c.anywhere(r), i, r.IntN(8) == 0)
		pause := 80
		if o.Answer == nil {
			pause = 400 // what is not known makes a history hard to check
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

// way is the one that a request takes.
type way struct {
	instance int
	twice    bool // it is doubled on the way
}

// anywhere is the way to any instance.
func (c *clients) anywhere(r *rand.Rand) way {
	return way{r.IntN(len(c.world.instances)), r.IntN(twice) == 0}
}

func (c *clients) address(w way) string { return c.world.instances[w.instance].address(w.twice) }

// httpClient keeps no connection: it would send a request a second time by itself when one breaks.
var httpClient = &http.Client{Timeout: deadline + time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// send sends a request of an intent, and records it.
func (c *clients) send(client int, w way, i intent, other bool) Op {
	path, body := i.command(other)
	o := Op{Kind: Request, Client: client, Key: i.key, Recovery: i.recovery, Command: path + " " + body, Twice: w.twice,
		Ends: i.ends()}
	return c.recorder.record(o, func(o *Op) {
		answer, err := exchange(c.address(w), path, body, c.tokens[i.principal], i.header)
		if err != nil {
			o.Error = err.Error()
			return
		}
		o.Answer = answer
		if answer.Code == core.CodeOutcomeUnknown || i.recovery == core.Park && answer.Result == core.ResultUnknown {
			c.unknown.add(i)
		}
	})
}

// exchange sends a request, and returns the answer if it came whole.
func exchange(host, path, body, token, key string) (*Answer, error) {
	r, err := http.NewRequest(http.MethodPost, "http://"+host+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	response, err := httpClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	a := &Answer{Status: response.StatusCode, Result: response.Header.Get(core.HeaderResult), Body: string(text)}
	var problem struct{ Code core.Code }
	if json.Unmarshal(text, &problem) == nil {
		a.Code = problem.Code
	}
	return a, nil
}
