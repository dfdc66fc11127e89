package interop_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v84"
	"go.uber.org/goleak"

	"github.com/auth19/idem/internal/cutproxy"
)

func TestMain(m *testing.M) {
	// GORM's prepared statements are never let go.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// newStripe is stripe-go as its users have it, but for the address and the number of its retries.
func newStripe(t *testing.T, addr string, retries int64) *stripe.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	return stripe.NewClient(apiKey, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: new("http://" + addr), MaxNetworkRetries: new(retries),
		HTTPClient: &http.Client{Transport: transport}, LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

// failing is a proxy that cuts every connection after a few requests, at any byte, and sends one in four twice.
func failing(t *testing.T, a *api) *cutproxy.Proxy {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	cut := cutproxy.Random(seed, 1200)
	proxy, err := cutproxy.New(a.addr, func(connection int) cutproxy.Fate {
		fate := cut(connection)
		fate.Twice = connection%4 == 0
		return fate
	})
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	return proxy
}

const intents = 200

// payment is what is charged for an intent. Each has an amount of its own.
func payment(intent int) *stripe.ChargeCreateParams {
	params := &stripe.ChargeCreateParams{
		Amount: new(int64(100 + intent)), Currency: new(string(stripe.CurrencyEUR)),
	}
	params.AddMetadata("intent", fmt.Sprint(intent))
	params.AddMetadata("shop", "interop")
	return params
}

// drive charges for all intents, from several goroutines, and returns the ids of the charges that were answered.
func drive(t *testing.T, charge func(intent int) (*stripe.Charge, error)) map[string]string {
	var (
		workers  sync.WaitGroup
		mu       sync.Mutex
		next     atomic.Int64
		answered = make(map[string]string)
	)
	for range 16 {
		workers.Go(func() {
			for intent := int(next.Add(1)); intent <= intents; intent = int(next.Add(1)) {
				made, err := charge(intent)
				if err != nil {
					continue
				}
				if made.Amount != int64(100+intent) {
					t.Errorf("intent %d was answered with a charge of %d", intent, made.Amount)
				}
				mu.Lock()
				answered[fmt.Sprint(intent)] = made.ID
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return answered
}

// report says what went on, and asserts that the proxy was of use.
func report(t *testing.T, a *api, proxy *cutproxy.Proxy, answered int) {
	stats := proxy.Stats()
	t.Logf("%d intents, %d answered; %d requests, %d of %d connections cut, %d doubled", intents, answered,
		a.requests.Load(), stats.Cut, stats.Accepted, stats.Doubled)
	require.Greater(t, stats.Cut, intents/20)
	require.Greater(t, a.requests.Load(), int64(intents+intents/20))
}

// stripe-go makes a key for each call, and repeats with it after errors of the network and of the server. Where it gives
// up, nobody knows the key any more; what is charged then is charged once, too.
//
// CONTRACT K-2, M-3, M-6, R-5
func TestStripeWithAutomaticKeys(t *testing.T) {
	for name, mount := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, mount)
			proxy := failing(t, a)
			client := newStripe(t, proxy.Addr(), 4)
			answered := drive(t, func(intent int) (*stripe.Charge, error) {
				return client.V1Charges.Create(t.Context(), payment(intent))
			})
			report(t, a, proxy, len(answered))
			require.Greater(t, len(answered), intents*9/10)

			booked := a.charges(t)
			for intent, ids := range booked {
				require.Len(t, ids, 1, "intent %s", intent)
			}
			for intent, id := range answered {
				require.Equal(t, []string{id}, booked[intent], "intent %s", intent)
			}
		})
	}
}

// A shop keeps its own key for each intent, and calls stripe-go again until there is an answer.
//
// CONTRACT K-2, M-3, M-6, R-5
func TestStripeWithTheShopsKeys(t *testing.T) {
	for name, mount := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, mount)
			proxy := failing(t, a)
			client := newStripe(t, proxy.Addr(), 1)
			answered := drive(t, func(intent int) (made *stripe.Charge, err error) {
				params := payment(intent)
				params.SetIdempotencyKey(fmt.Sprint("order-", intent))
				for range 50 {
					if made, err = client.V1Charges.Create(t.Context(), params); err == nil {
						break
					}
				}
				return made, err
			})
			report(t, a, proxy, len(answered))
			require.Len(t, answered, intents)

			booked := a.charges(t)
			require.Len(t, booked, intents)
			for intent, ids := range booked {
				require.Equal(t, []string{answered[intent]}, ids, "intent %s", intent)
			}
		})
	}
}

// A refusal in Stripe's form is a result: stripe-go does not repeat it, and a repeat with its key gets it again. The key
// for another amount is refused, and charges nothing.
//
// CONTRACT M-1, M-3, R-1
func TestStripeIsRefused(t *testing.T) {
	for name, mount := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, mount)
			client := newStripe(t, a.addr, 4)
			params := payment(1)
			require.NoError(t, params.SetSource(declined))
			params.SetIdempotencyKey("order-1")
			for range 2 {
				_, err := client.V1Charges.Create(t.Context(), params)
				var refused *stripe.Error
				require.ErrorAs(t, err, &refused)
				require.Equal(t, stripe.ErrorTypeCard, refused.Type)
				require.Equal(t, stripe.ErrorCodeCardDeclined, refused.Code)
			}
			require.EqualValues(t, 2, a.requests.Load())

			other := payment(2)
			other.SetIdempotencyKey("order-1")
			_, err := newStripe(t, a.addr, 0).V1Charges.Create(t.Context(), other)
			require.ErrorContains(t, err, `"key_reused"`)
			require.Empty(t, a.charges(t))
		})
	}
}
