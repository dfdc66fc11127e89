package idemclient_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
)

// A caller has lost the answer, and asks by the key that its journal has.
//
// CONTRACT M-8
func TestLookup(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	answers := map[string]func(w http.ResponseWriter){
		"json": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "/v1/payments/7")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `"a JSON string"`)
		},
		"text": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, `a "text"`)
		},
		"binary": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "\xff\x00") },
		"empty":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) },
		"fails":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"slow":   func(http.ResponseWriter) { close(entered); <-leave },
	}
	b := newBank(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) { answers[r.Header.Get("Answer")](w) })
	client := newClient(t, idemclient.Config{Transport: ownTransport(t), MaxAttempts: 1})
	url := b.URL + "/v1/operation"
	do := func(intent string) error {
		r := payment(t, b.URL+"/v1/payments")
		r.Header.Set("Answer", intent)
		_, err := client.Do(context.WithoutCancel(t.Context()), intent, r)
		return err
	}

	planned(t)(client.Key(t.Context(), "only planned"))
	o := found(t)(client.Lookup(t.Context(), "only planned", url))
	require.Equal(t, &idemclient.Operation{State: idemclient.StateNotFound}, o)
	for intent, want := range map[string]core.Answer{
		"json": {Status: 201, Body: []byte(`"a JSON string"`), Header: http.Header{
			"Content-Type": {"application/json"}, "Location": {"/v1/payments/7"}}},
		"text":   {Status: 200, Body: []byte(`a "text"`), Header: http.Header{"Content-Type": {"text/plain"}}},
		"binary": {Status: 200, Body: []byte("\xff\x00")},
		"empty":  {Status: 204},
	} {
		require.NoError(t, do(intent))
		o := found(t)(client.Lookup(t.Context(), intent, url))
		require.Equal(t, idemclient.StateCompleted, o.State)
		require.Equal(t, "succeeded", o.Outcome)
		_, err := core.ParseID(o.ID)
		require.NoError(t, err)
		require.Equal(t, want.Status, o.Answer.Status, intent)
		require.Equal(t, string(want.Body), string(o.Answer.Body), intent)
		for name := range want.Header {
			require.Equal(t, want.Header[name], o.Answer.Header[name], intent)
		}
	}
	require.ErrorIs(t, do("fails"), idemclient.ErrOutcomeUnknown)
	o = found(t)(client.Lookup(t.Context(), "fails", url))
	require.Equal(t, idemclient.StateUnknown, o.State)

	slow := make(chan error)
	go func() { slow <- do("slow") }()
	<-entered
	o, err := client.Lookup(t.Context(), "slow", url)
	close(leave)
	require.NoError(t, err)
	require.NoError(t, <-slow)
	require.Equal(t, idemclient.StateRunning, o.State)
	require.Nil(t, o.Answer)
	require.Len(t, b.keys(), 6, "nothing is run")
}

// CONTRACT M-8
func TestLookups(t *testing.T) {
	t.Run("what answers a lookup", func(t *testing.T) {
		const of = "Content-Type: application/json"
		for state, body := range map[idemclient.State]string{
			idemclient.StateExpired: `{"id":"` + operation + `","state":"expired","outcome":"refused"}`,
			idemclient.StateFree:    `{"id":"` + operation + `","state":"free"}`,
			"of_a_later_release":    `{"id":"` + operation + `","state":"of_a_later_release"}`,
		} {
			o := found(t)(lookup(t, says(200, of, "", body)))
			require.Equal(t, state, o.State)
			require.Equal(t, operation, o.ID)
		}
		for name, answer := range map[string]func(*http.Request) (*http.Response, error){
			"network": breaks(errReset), "401": problem(core.CodeUnauthenticated), "503": problem(core.CodeStoreUnavailable),
			"404 of a gateway": says(404), "no JSON": says(200, "", "<html>"), "nothing": says(200, of, "", "{}"),
			"no id":     says(200, of, "", `{"state":"completed","answer":{"status":201}}`),
			"no answer": says(200, of, "", `{"id":"`+operation+`","state":"completed"}`), "302": says(302),
		} {
			o, err := lookup(t, answer)
			require.Nil(t, o, name)
			require.ErrorIs(t, err, idemclient.ErrLookup, name)
			e := failed(t)(nil, err)
			require.Equal(t, "order-7", e.Intent, name)
			require.Equal(t, name == "401", e.Code == core.CodeUnauthenticated, name)
		}
	})
	t.Run("lookup needs a key", func(t *testing.T) {
		w, client := onWire(t, says(200))
		_, err := client.Lookup(t.Context(), "never heard of", address)
		require.ErrorIs(t, err, idemclient.ErrNotPlanned)
		_, err = client.Lookup(t.Context(), "", address)
		require.ErrorIs(t, err, intents.ErrNoIntent)
		_, err = newClient(t, idemclient.Config{Transport: w, Journal: &failingJournal{find: errReset}}).
			Lookup(t.Context(), "order-7", address)
		require.ErrorIs(t, err, errReset)
		_, err = newClient(t, idemclient.Config{Transport: w, Provider: idemclient.Square()}).LookupKey(t.Context(), "k-1", address)
		require.ErrorContains(t, err, "no header for keys")
		require.Empty(t, w.sent)

		// A call of a handler, and a reconciler that asks for it.
		ctx, id := inHandler(t)
		for range 2 {
			_, err = client.Lookup(ctx, "charge", address)
			require.ErrorIs(t, err, idemclient.ErrLookup)
		}
		_, err = client.LookupKey(t.Context(), id.DeriveCall("charge").UUID(), address)
		require.ErrorIs(t, err, idemclient.ErrLookup)
		require.Len(t, w.sent, 3)
		require.Equal(t, sent{at: w.sent[0].at, method: http.MethodGet, key: w.sent[2].key}, w.sent[0])
		require.Equal(t, w.sent[0].key, w.sent[1].key)
	})
	t.Run("lookup does not follow", func(t *testing.T) {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"`+operation+`","state":"free"}`)
		}))
		defer other.Close()
		bank := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
		defer bank.Close()
		follows := &http.Client{Transport: ownTransport(t)}
		client := newClient(t, idemclient.Config{Transport: roundTrip(follows.Do)})
		_, err := client.LookupKey(t.Context(), "k-1", bank.URL)
		require.ErrorIs(t, err, idemclient.ErrRedirected)
	})
}

func lookup(t *testing.T, answer func(*http.Request) (*http.Response, error)) (*idemclient.Operation, error) {
	t.Helper()
	client := newClient(t, idemclient.Config{Transport: on(answer)})
	planned(t)(client.Key(t.Context(), "order-7"))
	return client.Lookup(t.Context(), "order-7", address)
}
