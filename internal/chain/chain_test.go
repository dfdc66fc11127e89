package chain

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/internal/harness"
	"github.com/auth19/idem/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	intents = flag.Int("intents", 200, "how many refunds are made")
	seed    = flag.Uint64("seed", 0, "of the cuts; 0 takes a random one")
)

const clients = 24

// A client refunds at a shop on Gin. The shop's handler takes steps: it reserves, pays at a second service on Echo, and
// books. All connections break, some requests arrive twice, and both services are killed again and again: there is one
// entry for each intent in each ledger.
//
// CONTRACT C-1, C-2, C-3, X-3, M-3, M-6, R-5
func TestChain(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d, %d intents, %d clients", *seed, *intents, clients)
	second := newService(t, "echo", *seed+1)
	first := newService(t, "gin", *seed, "PROVIDER_URL="+second.Address(), "PROVIDER_TOKEN="+second.Tokens["customer-1"])
	c := newCaller(t, first)

	first.BreakUp()
	second.BreakUp()
	begun := time.Now()
	every := max(*intents/12, 50)
	c.refundAll(func(done int) {
		if done%every == 0 && done < *intents {
			[]*service{first, second}[done/every%2].Restart(t)
		}
	})
	took, attempts := time.Since(begun).Round(time.Millisecond), c.attempts.Load()

	for name, s := range map[string]*service{"first": first, "second": second} {
		stats, kills := s.Front.Stats(), s.Lives()-1
		s.Mend()
		t.Logf("%s service: killed %d times; %d of %d connections cut, %d doubled", name, kills, stats.Cut, stats.Accepted,
			stats.Doubled)
		require.Positive(t, kills)
		require.Greater(t, stats.Cut, *intents/20)
		require.Positive(t, stats.Doubled)
	}
	t.Logf("%v: %d intents, %d attempts, %d replays; ledgers: %d and %d entries", took, *intents, attempts, c.replays.Load(),
		len(first.ledger(harness.Refund)), len(second.ledger(harness.Payment)))
	require.Greater(t, attempts, int64(*intents))
	checkOnce(t, first.ledger(harness.Refund))
	checkOnce(t, second.ledger(harness.Payment))

	c.repeatAll()
	checkOnce(t, first.ledger(harness.Refund))
	checkOnce(t, second.ledger(harness.Payment))
}

// service is one of the two apps, on a database of its own. The connections of its clients break after a few requests.
type service struct {
	*harness.Instance
	t        *testing.T
	database string
}

func newService(t *testing.T, name string, seed uint64, env ...string) *service {
	database := pgtest.URL(t)
	cuts := harness.Cuts{Front: 2500, Twice: 8}
	in := harness.NewInstance(t, harness.Build(t, name), seed, cuts, database, append(env, "LEASE=2s")...)
	return &service{in, t, database}
}

// ledger returns the amounts of all entries of a kind.
func (s *service) ledger(kind harness.Kind) (amounts []string) {
	s.t.Helper()
	entries, err := harness.Ledger(s.t.Context(), s.database)
	require.NoError(s.t, err)
	for _, e := range entries {
		if e.Kind == kind {
			amounts = append(amounts, e.Amount)
		}
	}
	return amounts
}

// checkOnce asserts that there is one entry for each intent.
func checkOnce(t *testing.T, amounts []string) {
	t.Helper()
	entries := map[string]int{}
	for _, a := range amounts {
		entries[a]++
	}
	var wrong []string
	for intent := range *intents {
		if n := entries[amount(intent)]; n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s is there %d times", amount(intent), n))
		}
	}
	require.Empty(t, wrong)
	require.Len(t, amounts, *intents)
}

// caller makes refunds, each of another amount, of payments of its own.
type caller struct {
	t       *testing.T
	client  *idemclient.Client
	url     string
	refunds []string // paths, one of a payment each
	answers []string

	attempts, replays atomic.Int64
}

func newCaller(t *testing.T, s *service) *caller {
	c := &caller{t: t, url: s.Address(), answers: make([]string, *intents)}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = clients
	t.Cleanup(transport.CloseIdleConnections)
	token := s.Tokens["customer-1"]
	var err error
	c.client, err = idemclient.New(idemclient.Config{
		Transport: transport,
		Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		},
		Observe: func(_ context.Context, a idemclient.Try) {
			c.attempts.Add(1)
			if a.Replayed {
				c.replays.Add(1)
			}
		},
		MaxAttempts: 1000, MaxElapsed: 3 * time.Minute, FirstPause: 20 * time.Millisecond, MaxPause: time.Second,
	})
	require.NoError(t, err)
	for i := range clients {
		c.refunds = append(c.refunds, s.Paid(t, token, fmt.Sprint("payment-", i)))
	}
	return c
}

// amount is the amount of an intent's refund. No two intents have the same.
func amount(intent int) string { return fmt.Sprintf("%d.%02d", (intent+1)/100, (intent+1)%100) }

// refund makes a refund, and returns its answer.
func (c *caller) refund(ctx context.Context, intent int) (body string, replayed bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+c.refunds[intent%len(c.refunds)],
		strings.NewReader(`{"amount":"`+amount(intent)+`"}`))
	if err != nil {
		return "", false, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(ctx, fmt.Sprint("refund-", intent), request)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s: %s", response.Status, read)
	}
	return string(read), idemclient.ResultOf(response).Replayed, err
}

// refundAll makes all refunds, from several goroutines, and tells how many are done after each.
func (c *caller) refundAll(progress func(done int)) {
	done := make(chan error, *intents)
	c.forAll(func(ctx context.Context, intent int) {
		var err error
		c.answers[intent], _, err = c.refund(ctx, intent)
		if err == nil && !strings.Contains(c.answers[intent], `"amount":"`+amount(intent)+`"`) {
			err = fmt.Errorf("refund %d was answered with %s", intent, c.answers[intent])
		}
		done <- err
	}, func() {
		for n := range *intents {
			require.NoError(c.t, <-done)
			progress(n + 1)
		}
	})
}

// repeatAll makes all refunds again: their answers are the recorded ones.
func (c *caller) repeatAll() {
	c.forAll(func(ctx context.Context, intent int) {
		body, replayed, err := c.refund(ctx, intent)
		if err != nil || !replayed || body != c.answers[intent] {
			c.t.Errorf("refund %d is answered with %s (replayed: %v, %v), and not with %s", intent, body, replayed, err,
				c.answers[intent])
		}
	}, func() {})
}

// forAll runs work for all intents, in one goroutine for each client, and runs meanwhile in this goroutine. If meanwhile
// ends the test, the work ends, too.
func (c *caller) forAll(work func(ctx context.Context, intent int), meanwhile func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	var next atomic.Int64
	for range clients {
		workers.Go(func() {
			for intent := next.Add(1) - 1; intent < int64(*intents) && ctx.Err() == nil; intent = next.Add(1) - 1 {
				work(ctx, int(intent))
			}
		})
	}
	meanwhile()
	workers.Wait()
}
