package idemclient_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/core/intents"
)

// requireUnsent requires that a call was refused before its first attempt, and what its error says of the calls before it.
func requireUnsent(t *testing.T, uncertain bool, what string) func(res *http.Response, err error) {
	return func(res *http.Response, err error) {
		t.Helper()
		e := failed(t)(res, err)
		require.Zero(t, e.Attempts, what)
		require.Equal(t, uncertain, e.Uncertain, "%s: %v", what, e)
	}
}

// changed is the payment with one thing changed.
func changed(t *testing.T, change func(r *http.Request)) *http.Request {
	t.Helper()
	r := payment(t, address)
	change(r)
	return r
}

// An intent was sent, and nobody knows what became of it. Whatever keeps the next call from being sent, its error says so.
//
// CONTRACT C-4
func TestWhatIsNotSentIsNotCertain(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	client := newClient(t, idemclient.Config{Transport: on(breaks(errReset)), MaxAttempts: 1})
	require.True(t, failed(t)(pay(t, client, "order-7")).Uncertain)

	requireUnsent(t, true, "an ended context")(client.Do(over, "order-7", payment(t, address)))
	for what, change := range map[string]func(r *http.Request){
		"another body":  func(r *http.Request) { setBody(r, "another command") },
		"another key":   func(r *http.Request) { r.Header.Set("Idempotency-Key", "another") },
		"two keys":      func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} },
		"no rewinding":  func(r *http.Request) { r.GetBody = nil },
		"no host":       func(r *http.Request) { r.URL.Host = "" },
		"another host":  func(r *http.Request) { r.Host = "elsewhere.example" },
		"a broken body": func(r *http.Request) { r.ContentLength = 1000 },
	} {
		requireUnsent(t, true, what)(client.Do(t.Context(), "order-7", changed(t, change)))
	}
	for what, journal := range map[string]intents.Journal{
		"begin fails": &failingJournal{begin: errReset}, "no key": keyless{},
	} {
		client := newClient(t, idemclient.Config{Transport: on(says(201, created)), Journal: journal})
		requireUnsent(t, true, what)(pay(t, client, "order-7"))
		_, err := client.Key(t.Context(), "order-7")
		requireUnsent(t, true, what)(nil, err)
	}
	requireUnsent(t, false, "there is no such intent")(pay(t, client, ""))
}

// The same inside a handler, in which an earlier attempt, or an earlier call, may have paid.
//
// CONTRACT C-4, C-5
func TestWhatAHandlerDoesNotSendIsNotCertain(t *testing.T) {
	noRewinding := func() *http.Request { return changed(t, func(r *http.Request) { r.GetBody = nil }) }
	otherKey := func() *http.Request {
		return changed(t, func(r *http.Request) { r.Header.Set("Idempotency-Key", "another") })
	}
	_, client := onWire(t, says(201, created))
	for _, again := range []bool{false, true} {
		ctx := idemtest.Context(t.Context(), idemtest.Config{Again: again})
		child, cancel := context.WithCancel(ctx)
		cancel()
		requireUnsent(t, true, "an ended context")(client.Do(child, "charge", payment(t, address)))
		requireUnsent(t, again, "no host")(client.Do(ctx, "charge", payment(t, "")))
		requireUnsent(t, again, "no rewinding")(client.Do(ctx, "charge", noRewinding()))
		requireUnsent(t, again, "another key")(client.Do(ctx, "charge", otherKey()))
		require.NoError(t, intents.Planned(ctx, "refund"))
		requireUnsent(t, again, "planned, and not committed")(client.Do(ctx, "refund", payment(t, address)))

		failing := newClient(t, idemclient.Config{Transport: on(says(201, created)), Journal: &failingJournal{find: errReset}})
		requireUnsent(t, true, "find fails: it may be planned, and sent")(failing.Do(ctx, "charge", payment(t, address)))
		lost := payment(t, address).WithContext(ctx)
		requireUnsent(t, true, "the handler's context is lost")(client.Do(t.Context(), "charge", lost))
	}

	// In the first attempt, the call before may have paid.
	away := newClient(t, idemclient.Config{Transport: on(breaks(errReset)), MaxAttempts: 1})
	message, end := core.WithMessage(t.Context(), core.ID{1}, [32]byte{})
	ctx := idemtest.Context(t.Context(), idemtest.Config{})
	require.True(t, failed(t)(away.Do(ctx, "charge", payment(t, address))).Uncertain)
	requireUnsent(t, true, "the same call")(away.Do(ctx, "charge", payment(t, address)))
	requireUnsent(t, true, "the same call, another key")(away.Do(ctx, "charge", otherKey()))
	requireUnsent(t, true, "the same call, no rewinding")(away.Do(ctx, "charge", noRewinding()))
	requireUnsent(t, false, "another call")(away.Do(ctx, "notify", noRewinding()))
	require.NoError(t, core.CallDo(ctx, "ship", func(ctx context.Context, _ core.DerivedKey) error {
		requireUnsent(t, false, "a step's own call of that name")(away.Do(ctx, "charge", noRewinding()))
		return nil
	}))
	end()
	requireUnsent(t, true, "a message that is over")(client.Do(message, "charge", payment(t, address)))
	_, err := client.Key(message, "charge")
	requireUnsent(t, true, "its key")(nil, err)
}

// Whoever asks about an intent does not know what became of it, as long as there is no answer.
//
// CONTRACT C-4
func TestAQuestionWithoutAnAnswerIsNotCertain(t *testing.T) {
	client := newClient(t, idemclient.Config{Transport: on(breaks(errReset)), MaxAttempts: 1})
	require.True(t, failed(t)(pay(t, client, "order-7")).Uncertain)
	for _, answer := range []func(*http.Request) (*http.Response, error){breaks(errReset), says(401), says(200, "", "{}")} {
		client := newClient(t, idemclient.Config{Transport: on(answer)})
		_, err := client.LookupKey(t.Context(), "k-1", address)
		require.True(t, failed(t)(nil, err).Uncertain)
	}
	failing := newClient(t, idemclient.Config{Transport: on(says(200)), Journal: &failingJournal{find: errReset}})
	_, err := failing.Lookup(t.Context(), "order-7", address)
	requireUnsent(t, true, "find fails")(nil, err)
}
