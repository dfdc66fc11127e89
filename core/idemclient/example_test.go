package idemclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/memstore"
)

// A payment is sent through a network that loses the first answer. The second attempt has the same key, and gets the
// answer to the first.
func ExampleClient_Do() {
	bank := httptest.NewServer(payments(func(http.ResponseWriter, *http.Request) { fmt.Println("bank: paid") }))
	defer bank.Close()

	client, err := idemclient.New(idemclient.Config{
		Transport: losing(1),
		Authorize: func(r *http.Request) error { // for every attempt; the key stays
			r.Header.Set("Authorization", "Bearer "+freshToken())
			return nil
		},
		FirstPause: time.Millisecond,
	})
	must(err)
	ctx := context.Background()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, bank.URL+"/v1/payments", strings.NewReader(`{"amount":"12.50"}`))
	must(err)
	res, err := client.Do(ctx, "order-7/pay", r)
	switch e, _ := errors.AsType[*idemclient.Error](err); {
	case errors.Is(err, idemclient.ErrOutcomeUnknown):
		fmt.Println("ask for the operation", e.Operation)
	case err != nil:
		fmt.Println("repeat the same intent later:", err)
	default:
		result := idemclient.ResultOf(res)
		fmt.Println("client:", res.StatusCode, "attempts:", result.Attempts, "replayed:", result.Replayed)
	}
	// Output:
	// bank: paid
	// client: 201 attempts: 2 replayed: true
}

// Code that has an http.Client keeps it: the intent travels in the request's context.
func ExampleClient_RoundTrip() {
	bank := httptest.NewServer(payments(nil))
	defer bank.Close()
	money, err := idemclient.New(idemclient.Config{})
	must(err)
	client := &http.Client{
		Transport:     money,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, intent := range []string{"order-7/pay", ""} {
		ctx := idemclient.WithIntent(context.Background(), intent)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, bank.URL+"/v1/payments", strings.NewReader(`{"amount":"12.50"}`))
		must(err)
		res, err := client.Do(r)
		if err != nil {
			fmt.Println("refused:", errors.Is(err, intents.ErrNoIntent))
			continue
		}
		must(res.Body.Close())
		fmt.Println(res.StatusCode)
	}
	// Output:
	// 201
	// refused: true
}

// payments is a bank's guarded route.
func payments(paid http.HandlerFunc) http.Handler {
	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	must(err)
	return guard(idem, func(w http.ResponseWriter, r *http.Request) {
		if paid != nil {
			paid(w, r)
		}
		w.WriteHeader(http.StatusCreated)
	})
}

// guard does what ginidem and echoidem do for their frameworks.
func guard(idem *core.Module, handler http.HandlerFunc) http.Handler {
	caller := core.Principal{Issuer: "https://issuer.example", Subject: "shop"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, reply := idem.Admit(r, r.URL.Path, caller)
		if reply == nil {
			var attempt *core.Attempt
			if attempt, reply = idem.Begin(r, r.URL.Path, caller); attempt != nil {
				handler(attempt.Capture(w), attempt.Request())
				reply = attempt.Finish()
			}
		}
		_ = reply.WriteTo(w)
	})
}

// losing is a network that loses the first n answers.
func losing(n int) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := http.DefaultTransport.RoundTrip(r)
		if n--; n >= 0 && err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			return nil, errors.New("connection reset by peer")
		}
		return res, err
	})
}

func freshToken() string { return "..." }

func must(err error) {
	if err != nil {
		panic(err)
	}
}
