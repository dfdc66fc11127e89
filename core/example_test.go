package core_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/wire"
)

// What an adapter does, for net/http: ginidem and echoidem do the same for their frameworks.
func Example() {
	idem, err := core.New(core.Config{Store: memstore.New(), Routes: core.Routes{
		"POST /v1/payouts": {Recovery: core.Park, Roles: []string{"seller"}},
	}})
	must(err)
	app := guard(idem, "/v1/payouts", func(w http.ResponseWriter, r *http.Request) {
		key, _ := core.DeriveCall(r.Context(), "payout") // the same in every attempt
		fmt.Println("the provider is called with a key of", len(key.String()), "characters")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "paid out")
	})
	for range 2 {
		w := post(app, "/v1/payouts", "payout-7", `{"amount":"40.00"}`)
		fmt.Println(w.Code, w.Header().Get(wire.HeaderResult), w.Body)
	}
	// Output:
	// the provider is called with a key of 64 characters
	// 201 created paid out
	// 201 reused paid out
}

// guard puts the roles guard, the key guard and the interceptor around the handler of one route. Who calls is known
// here; an app asks its JWT guard.
func guard(idem *core.Module, pattern string, handler http.HandlerFunc) http.Handler {
	seller := core.Principal{Issuer: "https://issuer.example", Subject: "seller-1", Roles: []string{"seller"}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted, reply := idem.Admit(r, pattern, seller)
		if reply != nil {
			_ = reply.WriteTo(w)
			return
		}
		attempt, reply := idem.Begin(admitted, pattern, seller)
		switch {
		case reply != nil: // a refusal, or the recorded answer
			_ = reply.WriteTo(w)
			return
		case attempt == nil: // no key is needed here
			handler(w, admitted)
			return
		}
		ended := false
		defer func() {
			if !ended {
				attempt.Panicked(w.Header()) // the panic goes on
			}
		}()
		handler(attempt.Capture(w), attempt.Request())
		ended = true
		if reply := attempt.Finish(); reply != nil { // recorded before it leaves
			_ = reply.WriteTo(w)
		}
	})
}

// post sends a command.
func post(app http.Handler, path, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
