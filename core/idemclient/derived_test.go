package idemclient_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/core/intents"
)

// inHandler is the context of an attempt of a guarded handler, always of the same operation.
func inHandler(t *testing.T) (context.Context, core.ID) {
	t.Helper()
	ctx := idemtest.Context(t.Context(), idemtest.Config{})
	id, ok := core.Operation(ctx)
	require.True(t, ok)
	return ctx, id
}

// CONTRACT C-3, X-3, C-5
func TestCallsInsideAHandler(t *testing.T) {
	t.Run("a call inside a handler has a derived key", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		for range 2 { // attempts
			ctx, id := inHandler(t)
			key := planned(t)(client.Key(ctx, "charge"))
			require.Equal(t, id.DeriveCall("charge").UUID(), key)
			require.Equal(t, id.DeriveCall("charge").UUID(), key, "what a reconciler asks for")
			for _, name := range []string{"charge", "notify"} {
				succeeded(t)(client.Do(ctx, name, payment(t, address)))
			}
			require.Equal(t, key, w.sent[len(w.sent)-2].key)
		}
		require.Equal(t, w.sent[0].key, w.sent[2].key, "the same in every attempt")
		require.Equal(t, w.sent[1].key, w.sent[3].key)
		require.NotEqual(t, w.sent[0].key, w.sent[1].key)

		other := idemtest.Context(t.Context(), idemtest.Config{Key: "another operation"})
		succeeded(t)(client.Do(other, "charge", payment(t, address)))
		require.NotEqual(t, w.sent[0].key, w.sent[4].key)
	})
	t.Run("a call inside a handler needs its own name", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		ctx, _ := inHandler(t)
		require.ErrorIs(t, failed(t)(client.Do(ctx, "", payment(t, address))), intents.ErrNoIntent)
		_, err := (&http.Client{Transport: client}).Do(payment(t, address).WithContext(ctx))
		require.ErrorIs(t, err, intents.ErrNoIntent)
		require.Empty(t, w.sent)

		succeeded(t)(client.Do(ctx, "charge", payment(t, address)))
		another := newClient(t, idemclient.Config{Transport: w}) // of the same app
		for _, client := range []*idemclient.Client{client, another} {
			require.ErrorIs(t, failed(t)(client.Do(ctx, "charge", payment(t, address))), idemclient.ErrSameCall)
			_, err := (&http.Client{Transport: client}).Do(payment(t, address).WithContext(idemclient.WithIntent(ctx, "charge")))
			require.ErrorIs(t, err, idemclient.ErrSameCall)
		}
		require.Len(t, w.sent, 1)
	})
	t.Run("what is refused has made no call: the name is still free", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		ctx, _ := inHandler(t)
		r := payment(t, address)
		r.GetBody = nil
		require.ErrorIs(t, failed(t)(client.Do(ctx, "charge", r)), idemclient.ErrNotRewindable)
		r = payment(t, address)
		r.Header.Set("Idempotency-Key", "my-own")
		require.ErrorIs(t, failed(t)(client.Do(ctx, "charge", r)), idemclient.ErrOtherKey)
		succeeded(t)(client.Do(ctx, "charge", payment(t, address)))
		require.Len(t, w.sent, 1)
	})
	t.Run("a call inside a step", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		ctx, id := inHandler(t)
		call := func(step string, names ...string) error {
			return core.CallDo(ctx, step, func(ctx context.Context, _ core.DerivedKey) error {
				for _, name := range names {
					if _, err := client.Do(ctx, name, payment(t, address)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, call("charge", "charge", "notify"))
		require.NoError(t, call("refund", "notify"))
		for _, name := range []string{"notify", "charge"} { // outside a step
			succeeded(t)(client.Do(ctx, name, payment(t, address)))
		}
		for i, key := range []core.DerivedKey{
			id.DeriveStep("charge").DeriveCall("charge"),
			id.DeriveStep("charge").DeriveCall("notify"), id.DeriveStep("refund").DeriveCall("notify"),
			id.DeriveCall("notify"), id.DeriveCall("charge"),
		} {
			require.Equal(t, key.UUID(), w.sent[i].key)
			require.NotEqual(t, id.DeriveStep("charge").UUID(), w.sent[i].key, "the step's own is for the step alone")
			for j := range i {
				require.NotEqual(t, w.sent[j].key, w.sent[i].key)
			}
		}
		require.ErrorIs(t, call("capture", "capture", "capture"), idemclient.ErrSameCall)
		require.Len(t, w.sent, 6)
	})
	// A request that is made with the handler's context, and sent with another, would go out under a random key.
	t.Run("the handlers context is not lost", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		ctx, _ := inHandler(t)
		require.ErrorContains(t, failed(t)(client.Do(t.Context(), "charge", payment(t, address).WithContext(ctx))), "pass the handler's context to Do")
		require.Empty(t, w.sent)
	})
	t.Run("inside a handler the record is the journal", func(t *testing.T) {
		client := newClient(t, idemclient.Config{
			Transport: on(says(201, created)), Journal: &failingJournal{begin: errReset, end: errReset},
			Observe: func(_ context.Context, a idemclient.Try) { require.NoError(t, a.Err) },
		})
		ctx, _ := inHandler(t)
		succeeded(t)(client.Do(ctx, "charge", payment(t, address)))
	})
	t.Run("whether the call was planned is asked of the journal, and without an answer nothing is sent", func(t *testing.T) {
		w := on(says(201, created))
		client := newClient(t, idemclient.Config{Transport: w, Journal: &failingJournal{find: errReset}})
		ctx, _ := inHandler(t)
		require.ErrorIs(t, failed(t)(client.Do(ctx, "charge", payment(t, address))), errReset)
		_, err := client.Key(ctx, "charge")
		require.ErrorIs(t, err, errReset)
		require.Empty(t, w.sent)

		// What the client knows from outside a handler is the same intent inside one.
		client = newClient(t, idemclient.Config{Transport: w})
		succeeded(t)(pay(t, client, "order-7"))
		succeeded(t)(client.Do(ctx, "order-7", payment(t, address)))
		require.Equal(t, w.sent[0].key, w.sent[1].key)
		over, end := core.WithMessage(t.Context(), core.ID{1}, [32]byte{})
		end()
		_, err = client.Do(over, "order-7", payment(t, address))
		require.NoError(t, err, "it needs no attempt")
		require.Equal(t, w.sent[0].key, w.sent[2].key)

		for range 2 {
			require.NoError(t, intents.Planned(ctx, "refund"))
			_, err := client.Do(ctx, "refund", payment(t, address))
			require.ErrorIs(t, err, idemclient.ErrNotCommitted)
		}
		require.ErrorIs(t, intents.Planned(ctx, ""), intents.ErrNoIntent)
		require.Len(t, w.sent, 3)
	})
	inBubble(t, "the end of the attempt ends its calls", func(t *testing.T) {
		ended, cancel := context.WithTimeoutCause(t.Context(), time.Minute, core.ErrLeaseLost)
		defer cancel()
		ctx := idemtest.Context(ended, idemtest.Config{})
		e := failed(t)(newClient(t, idemclient.Config{Transport: on(hangs)}).Do(ctx, "charge", payment(t, address)))
		require.ErrorIs(t, e, core.ErrLeaseLost)
		require.True(t, e.Uncertain)
	})
}

// CONTRACT C-5
func TestCallsOfOneHandler(t *testing.T) {
	// A step makes a call of its own name, and the next step a second one of that name: two commands, also in the attempt in
	// which the first step is finished already.
	t.Run("two steps and calls of one name", func(t *testing.T) {
		provider := newBank(t, core.Config{}, nil)
		inner := newClient(t, idemclient.Config{Transport: ownTransport(t), MaxAttempts: 1})
		url := provider.URL + "/v1/payments"
		attempts := 0
		shop := newBank(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
			err := core.CallDo(r.Context(), "charge", func(ctx context.Context, _ core.DerivedKey) error {
				_, err := inner.Do(ctx, "charge", payment(t, url))
				return err
			}, core.Dedup(time.Hour))
			if err == nil {
				err = core.CallDo(r.Context(), "again", func(ctx context.Context, _ core.DerivedKey) error {
					_, err := inner.Do(ctx, "charge", payment(t, strings.Replace(url, "127.0.0.1", "localhost", 1)))
					if attempts++; attempts == 1 {
						return errors.New("it fails behind the call")
					}
					return err
				}, core.Dedup(time.Hour))
			}
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.WriteHeader(http.StatusCreated)
		})
		outer := newClient(t, idemclient.Config{Transport: ownTransport(t), FirstPause: time.Millisecond, MaxPause: time.Millisecond})
		res := succeeded(t)(outer.Do(t.Context(), "order-7", payment(t, shop.URL+"/v1/orders")))
		require.Equal(t, http.StatusCreated, res.StatusCode)
		require.Len(t, provider.keys(), 2, "two commands were given, and both carried out")
	})
	// The first attempt charges and fails. In the second nobody answers: that the charge was not made is not known, and the
	// handler must not record a refusal.
	t.Run("a second attempt begins uncertain", func(t *testing.T) {
		provider := newBank(t, core.Config{}, nil)
		var uncertain []bool
		away := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("connection refused")
		}}
		url := provider.URL + "/v1/payments"
		shop := newBank(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
			network := []http.RoundTripper{ownTransport(t), away, ownTransport(t)}[len(uncertain)]
			err := core.CallDo(r.Context(), "charge", func(ctx context.Context, _ core.DerivedKey) error {
				_, err := newClient(t, idemclient.Config{Transport: network, MaxAttempts: 1}).Do(ctx, "charge", payment(t, url))
				e, failed := errors.AsType[*idemclient.Error](err)
				uncertain = append(uncertain, failed && e.Uncertain)
				switch {
				case len(uncertain) == 1:
					return errors.New("it fails behind the charge")
				case failed && !e.Uncertain:
					return nil // and 201 is recorded, without a charge
				}
				return err
			}, core.Dedup(time.Hour))
			if err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusCreated)
		})
		outer := newClient(t, idemclient.Config{Transport: ownTransport(t), FirstPause: time.Millisecond, MaxPause: time.Millisecond})
		res := succeeded(t)(outer.Do(t.Context(), "order-7", payment(t, shop.URL+"/v1/orders")))
		require.Equal(t, http.StatusCreated, res.StatusCode)
		require.Equal(t, []bool{false, true, false}, uncertain)
		require.Len(t, provider.keys(), 1)

		// In the first attempt nothing can have been carried out.
		require.False(t, failed(t)(newClient(t, idemclient.Config{Transport: away, MaxAttempts: 1}).
			Do(idemtest.Context(t.Context(), idemtest.Config{}), "charge", payment(t, url))).Uncertain)
		require.True(t, failed(t)(newClient(t, idemclient.Config{Transport: away, MaxAttempts: 1}).
			Do(idemtest.Context(t.Context(), idemtest.Config{Again: true}), "charge", payment(t, url))).Uncertain)
	})
	// A step that runs for the first time says nothing about the calls outside of it, which an attempt before may have made.
	t.Run("a first step is certain of its own calls alone", func(t *testing.T) {
		client := newClient(t, idemclient.Config{Transport: on(busy), Direct: true, MaxAttempts: 1})
		outside := idemtest.Context(t.Context(), idemtest.Config{Again: true})
		require.NoError(t, core.CallDo(outside, "charge", func(ctx context.Context, _ core.DerivedKey) error {
			require.False(t, failed(t)(client.Do(ctx, "charge", payment(t, address))).Uncertain)
			require.True(t, failed(t)(client.Do(outside, "notify", payment(t, address))).Uncertain)
			message, end := core.WithMessage(ctx, core.ID{1}, [32]byte{})
			defer end()
			require.True(t, failed(t)(client.Do(message, "mail", payment(t, address))).Uncertain)
			return nil
		}))
	})
}

// CONTRACT C-5
func TestAttemptsThatAreOver(t *testing.T) {
	// A handler that leaves a goroutine behind: its call has no operation any more that would ask for it again.
	t.Run("a finished attempt derives nothing", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		var kept context.Context
		shop := newBank(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
			kept = context.WithoutCancel(r.Context())
			succeeded(t)(client.Do(kept, "charge", payment(t, address)))
			w.WriteHeader(http.StatusCreated)
		})
		outer := newClient(t, idemclient.Config{Transport: ownTransport(t)})
		succeeded(t)(outer.Do(t.Context(), "order-7", payment(t, shop.URL+"/v1/orders")))

		e := failed(t)(client.Do(kept, "notify", payment(t, address)))
		require.ErrorContains(t, e, "the attempt is over")
		require.Zero(t, e.Attempts)
		_, err := client.Key(kept, "notify")
		require.ErrorContains(t, err, "the attempt is over")
		require.Len(t, w.sent, 1)
	})
	t.Run("an attempt past its deadline derives nothing", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		shop := newBank(t, core.Config{Policy: core.Policy{Recovery: core.Park, Deadline: time.Second, Lease: time.Second}},
			func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				require.ErrorIs(t, failed(t)(client.Do(context.WithoutCancel(r.Context()), "charge", payment(t, address))), context.DeadlineExceeded)
			})
		outer := newClient(t, idemclient.Config{Transport: ownTransport(t), MaxAttempts: 1})
		_, _ = outer.Do(t.Context(), "order-7", payment(t, shop.URL+"/v1/orders"))
		require.Len(t, shop.keys(), 1)
		require.Empty(t, w.sent)
	})
}

// CONTRACT Q-4, C-5
func TestACallInAnInboxHandlerHasTheMessagesKey(t *testing.T) {
	w, client := onWire(t, says(201, created))
	deliver := func(ctx context.Context, message core.ID) {
		handlers, end := core.WithMessage(ctx, message, [32]byte{})
		for _, name := range []string{"charge", "notify"} {
			key := planned(t)(client.Key(handlers, name))
			require.Equal(t, message.DeriveCall(name).UUID(), key)
			succeeded(t)(client.Do(handlers, name, payment(t, address)))
			require.Equal(t, key, w.sent[len(w.sent)-1].key)
		}
		_, err := client.Do(handlers, "charge", payment(t, address))
		require.ErrorIs(t, err, idemclient.ErrSameCall)
		end()
		_, err = client.Do(handlers, "capture", payment(t, address))
		require.ErrorContains(t, err, "the attempt is over")
	}
	deliver(t.Context(), core.ID{1})
	deliver(t.Context(), core.ID{1})
	deliver(t.Context(), core.ID{2})
	webhook, id := inHandler(t) // an inbox inside an attempt, and inside one of its steps
	require.NoError(t, core.CallDo(webhook, "receive", func(ctx context.Context, _ core.DerivedKey) error {
		deliver(ctx, core.ID{1})
		inside, end := core.WithMessage(ctx, core.ID{1}, [32]byte{})
		defer end()
		operation, ok := core.Operation(inside)
		require.True(t, ok)
		require.Equal(t, id, operation)
		return nil
	}))
	require.Len(t, w.sent, 8)
	for _, other := range []int{2, 6} {
		require.Equal(t, w.sent[0].key, w.sent[other].key, "the same in every delivery")
	}
	require.NotEqual(t, w.sent[0].key, w.sent[4].key, "another message")

	// Nobody knows what the delivery before has called.
	away := newClient(t, idemclient.Config{Transport: on(says(429)), MaxAttempts: 1})
	handlers, end := core.WithMessage(t.Context(), core.ID{1}, [32]byte{})
	defer end()
	require.True(t, failed(t)(away.Do(handlers, "charge", payment(t, address))).Uncertain)
}

// A Resume handler that is interrupted between two services: every attempt calls the second under the same key.
//
// CONTRACT C-3, X-3
func TestTwoServices(t *testing.T) {
	provider := newBank(t, core.Config{}, nil)
	lost := 0
	cut := roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := http.DefaultTransport.RoundTrip(r)
		if lost++; lost <= 2 && err == nil { // the charge is made, and the answer is lost
			_ = res.Body.Close()
			return nil, errReset
		}
		return res, err
	})
	inner := newClient(t, idemclient.Config{Transport: cut, MaxAttempts: 1})
	shop := newBank(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
		status, err := core.Call(r.Context(), "charge", func(ctx context.Context, _ core.DerivedKey) (int, error) {
			res, err := inner.Do(ctx, "charge", payment(t, provider.URL+"/v1/payments"))
			if err != nil {
				return 0, err
			}
			return res.StatusCode, nil
		}, core.Dedup(time.Hour))
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(status)
	})
	outer := newClient(t, idemclient.Config{Transport: ownTransport(t), FirstPause: time.Millisecond, MaxPause: time.Millisecond})
	res := succeeded(t)(outer.Do(t.Context(), "order-7", payment(t, shop.URL+"/v1/orders")))
	require.Equal(t, http.StatusCreated, res.StatusCode)
	require.Equal(t, 3, idemclient.ResultOf(res).Attempts)
	require.Len(t, shop.keys(), 3, "attempts of the handler")
	require.Len(t, provider.keys(), 1, "charges")
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
