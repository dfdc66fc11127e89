package inspect_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/memstore"
)

// The pages behind the login of the app.
func Example() {
	numbers := inspect.NewNumbers()
	module, err := core.New(core.Config{
		Store:         memstore.New(),
		OperatorRoles: []core.IssuerRole{{Issuer: "https://shop.example", Role: "operator"}},
		Observer:      core.Observers(numbers, core.LogObserver(slog.Default())), // the log names who has read an answer
		Routes: core.Routes{
			"POST /v1/payouts":               {Recovery: core.Park, Roles: []string{"seller"}},
			"POST /v1/operations/:id/settle": {Recovery: core.Park, Roles: []string{"operator"}},
		},
	})
	if err != nil {
		panic(err)
	}
	pages, err := inspect.New(inspect.Config{
		Module:  module,
		Settle:  "POST /v1/operations/:id/settle", // without it the pages only read
		SignIn:  "/login",
		Numbers: numbers,
		Caller: func(r *http.Request) (core.Principal, error) {
			return session(r), nil // what your login has verified; the zero principal is nobody
		},
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/idem/", pages)

	for _, user := range []string{"", "sara", "olga"} {
		r := httptest.NewRequest(http.MethodGet, "/idem/", nil)
		r.AddCookie(&http.Cookie{Name: "session", Value: user})
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Printf("%q: %d\n", user, w.Code)
	}
	// Output:
	// "": 401
	// "sara": 403
	// "olga": 200
}

// session stands for the login of an app.
func session(r *http.Request) core.Principal {
	cookie, err := r.Cookie("session")
	if err != nil || cookie.Value == "" {
		return core.Principal{}
	}
	roles := map[string][]string{"sara": {"seller"}, "olga": {"operator"}}
	return core.Principal{Issuer: "https://shop.example", Subject: cookie.Value, Roles: roles[cookie.Value]}
}
