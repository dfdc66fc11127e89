package idemclient_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/idemtest"
)

// inHandler is the context of an attempt of a guarded handler, always of the same operation.
func inHandler(t *testing.T) (context.Context, core.ID) {
	t.Helper()
	ctx := idemtest.Context(t.Context(), idemtest.Attempt{})
	id, ok := core.Operation(ctx)
	require.True(t, ok)
	return ctx, id
}

// CONTRACT C-3, X-3
func TestACallInsideAHandlerHasADerivedKey(t *testing.T) {
	w := on(says(201))
	client := newClient(t, idemclient.Config{Transport: w})
	for range 2 { // attempts
		ctx, id := inHandler(t)
		key, err := client.Key(ctx, "charge")
		require.NoError(t, err)
		require.Equal(t, idemclient.DeriveKey(id, "", "charge").UUID(), key)
		require.Equal(t, core.DeriveKey(id, "charge").UUID(), key, "what a reconciler asks for")
		for _, name := range []string{"charge", "notify"} {
			_, err := client.Do(ctx, name, payment(t, address))
			require.NoError(t, err)
		}
		require.Equal(t, key, w.sent[len(w.sent)-2].key)
	}
	require.Equal(t, w.sent[0].key, w.sent[2].key, "the same in every attempt")
	require.Equal(t, w.sent[1].key, w.sent[3].key)
	require.NotEqual(t, w.sent[0].key, w.sent[1].key)

	other := idemtest.Context(t.Context(), idemtest.Attempt{Key: "another operation"})
	_, err := client.Do(other, "charge", payment(t, address))
	require.NoError(t, err)
	require.NotEqual(t, w.sent[0].key, w.sent[4].key)
}

// CONTRACT C-3
func TestACallInsideAHandlerNeedsItsOwnName(t *testing.T) {
	w := on(says(201))
	client := newClient(t, idemclient.Config{Transport: w})
	ctx, _ := inHandler(t)
	res, err := client.Do(ctx, "", payment(t, address))
	require.ErrorIs(t, failed(t, res, err), idemclient.ErrNoIntent)
	_, err = (&http.Client{Transport: client}).Do(payment(t, address).WithContext(ctx))
	require.ErrorIs(t, err, idemclient.ErrNoIntent)
	require.Empty(t, w.sent)

	_, err = client.Do(ctx, "charge", payment(t, address))
	require.NoError(t, err)
	another := newClient(t, idemclient.Config{Transport: w}) // of the same app
	for _, client := range []*idemclient.Client{client, another} {
		res, err = client.Do(ctx, "charge", payment(t, address))
		require.ErrorIs(t, failed(t, res, err), idemclient.ErrSameCall)
		_, err = (&http.Client{Transport: client}).Do(payment(t, address).WithContext(idemclient.WithIntent(ctx, "charge")))
		require.ErrorIs(t, err, idemclient.ErrSameCall)
	}
	require.Len(t, w.sent, 1)
}

// What is refused has made no call: the name is still free.
//
// CONTRACT C-3
func TestARefusedCallTakesNoName(t *testing.T) {
	w := on(says(201))
	client := newClient(t, idemclient.Config{Transport: w})
	ctx, _ := inHandler(t)
	r := payment(t, address)
	r.GetBody = nil
	res, err := client.Do(ctx, "charge", r)
	require.ErrorIs(t, failed(t, res, err), idemclient.ErrNotRewindable)
	r = payment(t, address)
	r.Header.Set("Idempotency-Key", "my-own")
	res, err = client.Do(ctx, "charge", r)
	require.ErrorIs(t, failed(t, res, err), idemclient.ErrOtherKey)
	_, err = client.Do(ctx, "charge", payment(t, address))
	require.NoError(t, err)
	require.Len(t, w.sent, 1)
}

// CONTRACT C-3, X-3
func TestACallInsideAStep(t *testing.T) {
	w := on(says(201))
	client := newClient(t, idemclient.Config{Transport: w})
	ctx, id := inHandler(t)
	call := func(step string, names ...string) error {
		return core.StepDo(ctx, step, func(ctx context.Context) error {
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
	_, err := client.Do(ctx, "notify", payment(t, address)) // outside a step
	require.NoError(t, err)
	for i, key := range []core.DerivedKey{
		core.DeriveKey(id, "charge"), // the step's own
		idemclient.DeriveKey(id, "charge", "notify"), idemclient.DeriveKey(id, "refund", "notify"),
		core.DeriveKey(id, "notify"),
	} {
		require.Equal(t, key.UUID(), w.sent[i].key)
		for j := range i {
			require.NotEqual(t, w.sent[j].key, w.sent[i].key)
		}
	}
	require.Equal(t, core.DeriveKey(id, "charge"), idemclient.DeriveKey(id, "charge", "charge"))

	require.ErrorIs(t, call("capture", "capture", "capture"), idemclient.ErrSameCall)
	_, err = client.Do(ctx, "charge", payment(t, address)) // would be the key of the step
	require.ErrorIs(t, err, idemclient.ErrSameCall)
	require.Len(t, w.sent, 5)
}

// A request that is made with the handler's context, and sent with another, would go out under a random key.
//
// CONTRACT C-3
func TestTheHandlersContextIsNotLost(t *testing.T) {
	w := on(says(201))
	client := newClient(t, idemclient.Config{Transport: w})
	ctx, _ := inHandler(t)
	res, err := client.Do(t.Context(), "charge", payment(t, address).WithContext(ctx))
	require.ErrorContains(t, failed(t, res, err), "pass the handler's context to Do")
	require.Empty(t, w.sent)
}

// Inside a handler the record is the journal.
//
// CONTRACT C-3
func TestACallInsideAHandlerNeedsNoJournal(t *testing.T) {
	client := newClient(t, idemclient.Config{
		Transport: on(says(201)), Journal: &brokenJournal{begin: errReset, end: errReset},
		Observe: func(_ context.Context, a idemclient.Attempt) { require.NoError(t, a.Err) },
	})
	ctx, _ := inHandler(t)
	_, err := client.Do(ctx, "charge", payment(t, address))
	require.NoError(t, err)
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
		status, err := core.Step(r.Context(), "charge", func(ctx context.Context) (int, error) {
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
	res, err := outer.Do(t.Context(), "order-7", payment(t, shop.URL+"/v1/orders"))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, res.StatusCode)
	require.Equal(t, 3, idemclient.ResultOf(res).Attempts)
	require.Len(t, shop.keys(), 3, "attempts of the handler")
	require.Len(t, provider.keys(), 1, "charges")
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The end of the attempt ends its calls.
func TestTheAttemptsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithTimeoutCause(t.Context(), time.Minute, core.ErrLeaseLost)
		defer cancel()
		ctx := idemtest.Context(ended, idemtest.Attempt{})
		res, err := newClient(t, idemclient.Config{Transport: on(hangs)}).Do(ctx, "charge", payment(t, address))
		e := failed(t, res, err)
		require.ErrorIs(t, e, core.ErrLeaseLost)
		require.True(t, e.Uncertain)
	})
}
