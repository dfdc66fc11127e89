package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/harness"
)

type intent = harness.Intent

// nameOf is the name of an intent's key in a history. Two intents may have the same key, perhaps for other commands.
func nameOf(i intent) string { return i.Caller + "/" + i.Key }

// sameKey returns a function that reports whether another intent has the key of i.
func sameKey(i intent) func(intent) bool {
	return func(other intent) bool { return nameOf(i) == nameOf(other) }
}

// methods say how commands end. A method that is listed twice is chosen twice as often. methodsOf has those of each
// recovery.
var (
	methods = strings.Fields(`pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok
		pm_declined pm_error pm_panic pm_unavailable pm_slow pm_hang`)
	methodsOf = map[core.Recovery][]string{
		core.Rollback: append(strings.Fields("pm_commit pm_rollback"), methods...),
		core.Resume:   append(strings.Fields("pm_lost pm_stuck pm_stuck pm_stuck pm_stuck"), methods...),
		core.Park:     methods,
	}
)

// intentOf makes intent n of the seed.
func (c *clients) intentOf(n int) intent {
	r := rand.New(rand.NewPCG(c.seed, uint64(n)))
	caller, kind := r.IntN(principals), harness.Kinds[r.IntN(len(harness.Kinds))]
	i := intent{N: n, Kind: kind, Caller: subject(caller), Amount: fmt.Sprintf("%d.00", 1+r.IntN(5))}
	methods := methodsOf[kind.Recovery()]
	i.Method = methods[r.IntN(len(methods))]
	i.Key = c.world.key(fmt.Sprintf("key-%d-%v", n/2, kind.Recovery()), n/2) // two principals may have the same key
	i.Path = map[harness.Kind]string{
		harness.Payment: "/v1/payments", harness.Refund: c.refunds[caller], harness.Payout: "/v1/payouts",
	}[kind]
	return i
}

// clients send requests at the same time.
type clients struct {
	world    *world
	recorder *recorder
	seed     uint64
	tokens   map[string]string // of the principals
	offices  []string          // tokens of the operators
	refunds  []string
	sent     atomic.Int64
	settled  atomic.Int64 // settlements sent
	unknown  unknowns
}

// Keys are repeated often enough for repeats to meet, and not so often that their histories get too large to be checked.
const (
	perKey = 15 // requests, on average
	alive  = 4  // keys at a time
	twice  = 16 // one request in 16 is sent twice by a proxy
)

// intent returns the intent of the n-th request: a random one of those that are in use by then.
func (c *clients) intent(r *rand.Rand, n int64) intent {
	return c.intentOf(int(n)/perKey + r.IntN(alive))
}

// work sends one request after the other until ctx ends.
func (c *clients) work(ctx context.Context, client int) {
	r := rand.New(rand.NewPCG(c.seed, 1<<40+uint64(client)))
	for ctx.Err() == nil {
		i := c.intent(r, c.sent.Add(1))
		o := c.send(client, c.anywhere(r), i, r.IntN(8) == 0)
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

// way is the way of a request to an app.
type way struct {
	instance int
	twice    bool // a proxy sends it twice
}

// anywhere returns a way to a random instance.
func (c *clients) anywhere(r *rand.Rand) way {
	return way{r.IntN(len(c.world.instances)), r.IntN(twice) == 0}
}

func (c *clients) address(w way) string { return c.world.instances[w.instance].address(w.twice) }

// network keeps no connection open: net/http would send a request a second time by itself if a kept connection breaks.
var network = &http.Transport{DisableKeepAlives: true}

// send sends a request of an intent, and records it.
func (c *clients) send(client int, w way, i intent, other bool) Op {
	body := i.Body(!other)
	o := Op{Kind: Request, Client: client, Key: nameOf(i), Recovery: i.Kind.Recovery(), Command: i.Path + " " + body,
		Twice: w.twice, Ends: i.EndsItself()}
	return c.recorder.record(o, func(o *Op) {
		answer, err := exchange(c.address(w), i.Path, body, c.tokens[i.Caller], i.Key)
		if err != nil {
			o.Error = err.Error()
			return
		}
		o.Answer = answer
		if answer.Code == core.CodeOutcomeUnknown || i.Kind == harness.Payout && answer.Result == core.ResultUnknown {
			c.unknown.add(i)
		}
	})
}

// exchange sends a request, and returns the answer if it came whole.
func exchange(host, path, body, token, key string) (*Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline+time.Second)
	defer cancel()
	r, err := harness.NewRequest(ctx, "http://"+host+path, token, key, body)
	if err != nil {
		return nil, err
	}
	response, a, err := harness.Exchange(network, r)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close() // it was read
	return &a, nil
}
