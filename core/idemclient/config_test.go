package idemclient_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/idemclient"
)

func TestConfigNamesEverythingThatIsWrong(t *testing.T) {
	_, err := idemclient.New(idemclient.Config{
		MaxAttempts: -1, MaxElapsed: -1, AttemptTimeout: -1, FirstPause: -1, MaxPause: -2, MaxRetryAfter: -1, MaxAnswer: -1,
		MaxBuffer: -1, Provider: idemclient.Provider{Header: "a b", Member: "c", MaxKey: 35},
	})
	require.Error(t, err)
	for _, field := range []string{"MaxAttempts", "MaxElapsed", "AttemptTimeout", "FirstPause", "MaxPause", "MaxRetryAfter",
		"MaxAnswer", "MaxBuffer", "one of Header and Member", `Header "a b"`, "MaxKey is 35", "Lifetime"} {
		require.ErrorContains(t, err, field)
	}
	for line := range strings.Lines(err.Error()) {
		require.True(t, strings.HasPrefix(line, "idem: idemclient.Config."), line)
	}
	provider := idemclient.Standard()
	provider.Lifetime = time.Minute
	_, err = idemclient.New(idemclient.Config{Provider: provider})
	require.ErrorContains(t, err, "no longer than one attempt")
	provider.Header = ""
	_, err = idemclient.New(idemclient.Config{Provider: provider})
	require.ErrorContains(t, err, "one of Header and Member")
	_, err = idemclient.New(idemclient.Config{})
	require.NoError(t, err)
}

// CONTRACT C-1, K-7
func TestProfilesOfProviders(t *testing.T) {
	t.Run("providers", func(t *testing.T) {
		for name, provider := range map[string]idemclient.Provider{
			"Idempotency-Key":     idemclient.Standard(),
			"idempotency-key":     {Header: "idempotency-key", MaxKey: 36, Lifetime: time.Hour},
			"PayPal-Request-Id":   idemclient.PayPal(),
			"Cko-Idempotency-Key": idemclient.CheckoutCom(),
		} {
			got := map[string]string{}
			w := on(says(201, created))
			client := newClient(t, idemclient.Config{Provider: provider, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				for header := range r.Header {
					got[header] = r.Header.Get(header)
				}
				return w.RoundTrip(r)
			})})
			succeeded(t)(pay(t, client, "order-7"))
			key := planned(t)(client.Key(t.Context(), "order-7"))
			delete(got, "Content-Type")
			require.Len(t, got, 1)
			for header, value := range got {
				require.True(t, strings.EqualFold(name, header))
				require.Equal(t, key, value)
				require.LessOrEqual(t, len(value), provider.MaxKey)
			}
		}
		for _, provider := range []idemclient.Provider{idemclient.Stripe(), idemclient.Adyen(), idemclient.Square()} {
			_, err := idemclient.New(idemclient.Config{Provider: provider})
			require.NoError(t, err)
		}
	})
	t.Run("a provider with the key in the body", func(t *testing.T) {
		w := on(says(200, created))
		client := newClient(t, idemclient.Config{Transport: w, Provider: idemclient.Square()})
		key := planned(t)(client.Key(t.Context(), "order-7"))
		for _, body := range []string{"", "{}", "[]", `{"idempotency_key":7}`, `{"idempotency_key":"another"}`} {
			r := payment(t, address)
			setBody(r, body)
			e := failed(t)(client.Do(t.Context(), "order-7", r))
			require.ErrorIs(t, e, idemclient.ErrOtherKey)
			require.ErrorContains(t, e, "get it from Client.Key")
		}
		require.Empty(t, w.sent)
		r := payment(t, address)
		setBody(r, `{"amount":1250,"idempotency_key":"`+key+`"}`)
		succeeded(t)(client.Do(t.Context(), "order-7", r))
		require.Empty(t, w.sent[0].key, "there is no header")

		ctx, _ := inHandler(t)
		key = planned(t)(client.Key(ctx, "charge"))
		setBody(r, `{"idempotency_key":"`+key+`"}`)
		succeeded(t)(client.Do(ctx, "charge", r))
	})
}
