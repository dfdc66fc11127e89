package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/harness"
)

// wire is the transport of the clients. It chooses an app for each request, hangs up now and then, and reads every answer,
// also those after which a client repeats its command.
type wire struct {
	told     *told
	findings *findings
	network  *http.Transport
	hangsUp  bool

	requests, answers, hungUp atomic.Int64

	mu              sync.Mutex
	first, repeated []time.Duration // times of recorded answers
}

// newWire returns a wire to the apps behind the given proxies.
func newWire(t *told, f *findings, clients int, addresses []string) *wire {
	w := &wire{told: t, findings: f}
	var connections atomic.Int64
	w.network = &http.Transport{
		MaxIdleConnsPerHost: clients,
		// Both apps have one host name, because an intent belongs to the host that it was sent to.
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			address := addresses[int(connections.Add(1))%len(addresses)]
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	return w
}

// errHungUp ends a request whose client does not wait for its answer.
var errHungUp = errors.New("the client hangs up")

// sending is what the wire knows about a request besides the request itself.
type sending struct {
	intent intent
	own    bool
	r      *rand.Rand // of the client
}

type sendingKey struct{}

// with returns the context of requests of an intent.
func (o sending) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, sendingKey{}, o)
}

// RoundTrip implements [http.RoundTripper]. The answer is read whole.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	o := r.Context().Value(sendingKey{}).(sending)
	ctx := r.Context()
	if w.hangsUp && o.r.IntN(50) == 0 {
		soon, cancel := context.WithTimeoutCause(ctx, time.Duration(o.r.IntN(20_000))*time.Microsecond, errHungUp)
		defer cancel()
		ctx = soon
	}
	before, began := w.told.of(o.intent.N), time.Now()
	w.requests.Add(1)
	res, a, err := w.exchange(r.WithContext(ctx))
	if err != nil {
		if errors.Is(context.Cause(ctx), errHungUp) {
			w.hungUp.Add(1)
		}
		return nil, err
	}
	w.answers.Add(1)
	w.time(a, time.Since(began))
	if what := w.told.hear(before, o.intent, o.own, a); what != "" {
		w.findings.add(contradiction, o.intent.Operation(), fmt.Sprintf("%v (its own command: %v) got %d %s %s: %s", o.intent,
			o.own, a.Status, a.Result, a.Body, what))
	}
	return res, nil
}

// answerWithin bounds a request. It is longer than any handler takes.
const answerWithin = 10 * time.Second

// exchange sends a request and reads its answer.
func (w *wire) exchange(r *http.Request) (*http.Response, answer, error) {
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	return harness.Exchange(w.network, r.WithContext(ctx))
}

// time notes how long an answer took.
func (w *wire) time(a answer, took time.Duration) {
	if !a.Recorded() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.Result == core.ResultCreated {
		w.first = append(w.first, took)
	} else {
		w.repeated = append(w.repeated, took)
	}
}
