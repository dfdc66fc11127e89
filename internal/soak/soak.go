package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/internal/harness"
	"github.com/auth19/idem/internal/pgtest"
)

// soak is a run.
type soak struct {
	options
	t         testing.TB
	database  *pgtest.Cluster
	instances []*harness.Instance
	tokens    map[string]string // by caller
	refunds   []string          // paths, those of the two customers by turns

	told     told
	findings findings
	wire     *wire
	client   *idemclient.Client
	nemesis  *harness.Nemesis

	began   time.Time
	took    time.Duration // of the load
	goal    atomic.Int64  // expected number of requests, as far as it is known
	gaveUp  atomic.Int64  // commands without an answer when the client stopped trying
	settled atomic.Int64  // refunds that an operator has settled
	atStart []float64     // memory of the apps
}

// Connections of clients are cut after some dozens of requests, connections to the database after some hundreds of
// statements.
var cuts = harness.Cuts{Front: 20_000, Back: 200_000, Twice: 16}

// quiet is the last part of a run. No app is killed in it, so that the growth of memory can be seen.
const quiet = 1. / 3

// start starts the database, the apps and their proxies. Nothing is broken yet.
func start(t testing.TB, o options) *soak {
	t.Helper()
	s := &soak{options: o, t: t, database: pgtest.Own(t)}
	s.goal.Store(o.requests)
	var addresses []string
	for i, name := range []string{"gin", "echo"} {
		in := harness.NewInstance(t, harness.Build(t, name), o.seed+uint64(i)<<32, cuts, s.database.URL(),
			"LEASE=2s", "DEADLINE=8s", "STALL=4s", "UNSAFE_SIMULATOR=1")
		s.instances = append(s.instances, in)
		addresses = append(addresses, in.Front.Addr())
	}
	s.tokens = s.instances[0].Tokens
	s.nemesis = &harness.Nemesis{
		T: t, R: rand.New(rand.NewPCG(o.seed, 1<<50)), Instances: s.instances, Between: o.faults,
		Database: func() *pgtest.Cluster { return s.database },
		Spared: func(f harness.Fault) bool {
			return f.Ends && float64(s.wire.requests.Load()) > (1-quiet)*float64(o.requests)
		},
	}
	s.nemesis.Faults = s.nemesis.Usual(time.Second, 4*time.Second, nil)
	s.wire = newWire(&s.told, &s.findings, o.clients, addresses)
	t.Cleanup(s.wire.network.CloseIdleConnections)
	var err error
	s.client, err = idemclient.New(idemclient.Config{
		Transport: s.wire, AttemptTimeout: answerWithin,
		MaxAttempts: 1000, FirstPause: 20 * time.Millisecond, MaxPause: time.Second,
	})
	require.NoError(t, err)
	s.witness()
	for n := range 32 {
		s.refunds = append(s.refunds, s.instances[0].Paid(t, s.tokens[customer(n)], preparation(n)))
	}
	for _, in := range s.instances {
		s.atStart = append(s.atStart, in.Memory())
	}
	s.began = time.Now()
	return s
}

// preparation is the key of a payment that was made before the run.
func preparation(n int) string { return fmt.Sprint("preparation-", n) }

// load lets the clients send under faults until there are enough requests, and waits for the running ones.
func (s *soak) load() {
	ctx, enough := context.WithCancel(s.t.Context())
	defer enough()
	s.wire.hangsUp = s.faults > 0
	var clients sync.WaitGroup
	defer clients.Wait()
	for client := range s.clients {
		clients.Go(func() {
			s.work(client)
			enough()
		})
	}
	if s.faults > 0 {
		s.nemesis.Work(ctx)
		for _, in := range s.instances {
			in.Mend()
		}
	}
	clients.Wait()
	s.wire.hangsUp = false
	s.took = time.Since(s.began)
}

// work sends one command after the other: new ones, repeats, and other commands under old keys.
func (s *soak) work(client int) {
	r := rand.New(rand.NewPCG(s.seed, 1<<40+uint64(client)))
	for s.wire.requests.Load() < s.requests && s.t.Context().Err() == nil {
		n, old := s.old(r)
		switch what := r.IntN(10); {
		case what < 5 || !old:
			s.carryOut(sending{s.intent(s.told.begin()), true, r})
		case what < 8 || s.told.of(n).end != known:
			// If a claim was written although its owner got an error, it is unknown after its lease, and free once Run
			// has released it (F-1). Another command may have that key then.
			s.sendOnce(sending{s.intent(n), true, r})
		default:
			s.sendOnce(sending{s.intent(n), false, r})
		}
	}
}

// old chooses an intent that has ended: half of the time a recent one.
func (s *soak) old(r *rand.Rand) (n int, ok bool) {
	begun := s.told.begun()
	if begun == 0 {
		return 0, false
	}
	if n = r.IntN(begun); r.IntN(2) == 0 {
		n = begun - 1 - r.IntN(min(begun, 4*s.clients))
	}
	return n, s.told.of(n).end != open
}

// carryOut sends a command until it has an answer; only once, if it can have none.
func (s *soak) carryOut(o sending) {
	if o.intent.NeverEnds() {
		s.sendOnce(o)
		return
	}
	ctx := s.t.Context()
	request, err := s.request(ctx, o)
	if err == nil {
		var response *http.Response
		response, err = s.client.Do(o.with(ctx), o.intent.Key, request)
		if err == nil {
			_ = response.Body.Close() // the wire has read it
		}
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case !errors.Is(err, idemclient.ErrOutcomeUnknown):
		s.gaveUp.Add(1) // it is repeated once more in the end
	case o.intent.IsStuck():
		s.settle(ctx, o.intent)
	}
}

// sendOnce sends a command once, mostly under a key that was used before.
func (s *soak) sendOnce(o sending) {
	ctx := o.with(s.t.Context())
	request, err := s.request(ctx, o)
	if err != nil {
		s.t.Error(err)
		return
	}
	response, err := s.wire.RoundTrip(request)
	if err == nil { // else there is no answer
		_ = response.Body.Close()
	}
}

// request makes the request of a command.
func (s *soak) request(ctx context.Context, o sending) (*http.Request, error) {
	i := o.intent
	return harness.NewRequest(ctx, "http://shop"+i.Path, s.tokens[i.Caller], i.Key, i.Body(o.own))
}

// callRoll repeats every command once more, without faults. Each answer must be the earlier one.
func (s *soak) callRoll() {
	var clients sync.WaitGroup
	var next atomic.Int64
	s.goal.Store(s.wire.requests.Load() + int64(s.told.begun()))
	for range s.clients {
		clients.Go(func() {
			for n := next.Add(1) - 1; n < int64(s.told.begun()) && s.t.Context().Err() == nil; n = next.Add(1) - 1 {
				s.carryOut(sending{intent: s.intent(int(n)), own: true})
			}
		})
	}
	clients.Wait()
}

// showProgress keeps a line up to date until the function that it returns is called.
func (s *soak) showProgress(out io.Writer) (end func()) {
	done := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for ended := false; !ended; {
			select {
			case <-ticker.C:
			case <-done:
				ended = true
			}
			_, _ = fmt.Fprintf(out, "\r%v: %d of %d requests, %d intents, %d faults, %d contradictions ",
				time.Since(s.began).Round(time.Second), s.wire.requests.Load(), s.goal.Load(), s.told.begun(), s.nemesis.Total.Load(),
				s.findings.count(contradiction))
		}
		_, _ = fmt.Fprintln(out)
	})
	return func() {
		close(done)
		showing.Wait()
	}
}
