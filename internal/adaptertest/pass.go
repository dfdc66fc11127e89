package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// mount mounts routes under /v1 with guards somewhere in front of them.
type mount func(app App, guards ...Middleware) Router

// Safe methods, unknown paths and wrong methods get what the router would give them without guards, wherever the guards
// are mounted, and what runs a handler that needs a key is asked for one.
//
// CONTRACT K-8
func passThrough(t *testing.T, a Adapter) {
	idle := a.Middleware(func(_ Context, next func() error) error { return next() })
	order, file := "/orders/"+param(a, "id"), "/files/"+wildcard(a)
	pay := a.Handler(func(c Context) error {
		if method := c.Request().Method; method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions {
			return c.String(http.StatusOK, fmt.Sprintf("%s %T", c.Path(), c.Inner())) // the writer is the framework's
		}
		return c.String(http.StatusCreated, c.Path()+" "+c.Param("id"))
	})
	routes := func(v1 Router, guards ...Middleware) Router {
		v1.Handle(http.MethodGet, "/read", pay, guards...)
		v1.Handle(http.MethodGet, "/pay", pay, guards...)
		v1.Handle(http.MethodHead, "/pay", pay, guards...)
		v1.Handle(http.MethodPost, "/pay", pay, guards...)
		v1.Handle(http.MethodPost, order, pay, guards...)
		v1.Handle(http.MethodPut, file, pay, guards...)
		v1.Handle("", "/any", pay, guards...)
		return v1
	}
	table := core.Routes{}
	for _, method := range []string{"BREW", "CONNECT", "DELETE", "PATCH", "POST", "PROPFIND", "PUT", "REPORT"} {
		for _, path := range []string{"/any", "/pay", order, file} {
			table[method+" /v1"+path] = core.Policy{Recovery: core.Park}
		}
	}
	for where, mount := range map[string]mount{
		"on the app":    func(app App, m ...Middleware) Router { app.Use(m...); return routes(app.Group("/v1")) },
		"on the group":  func(app App, m ...Middleware) Router { return routes(app.Group("/v1", m...)) },
		"on the routes": func(app App, m ...Middleware) Router { return routes(app.Group("/v1", idle), m...) },
		"on the root group": func(app App, m ...Middleware) Router {
			return routes(app.Group("", m...).Group("/v1"))
		},
		"used by the group, later": func(app App, m ...Middleware) Router {
			v1 := app.Group("/v1", idle)
			v1.Use(m...)
			return routes(v1)
		},
	} {
		for name, cfg := range map[string]core.Config{"own policy": {}, "table": {Routes: table}} {
			t.Run(where+", "+name, func(t *testing.T) { testPassThrough(t, a, cfg, mount, false) })
			if a.Furnish != nil {
				t.Run(where+", furnished, "+name, func(t *testing.T) { testPassThrough(t, a, cfg, mount, true) })
			}
		}
	}
}

func testPassThrough(t *testing.T, a Adapter, cfg core.Config, mount mount, furnished bool) {
	without, with := a.New(), a.New()
	idle := a.Middleware(func(_ Context, next func() error) error { return next() })
	v1, guarded := mount(without, idle), mount(with, a.JWTGuard(NewVerifier(t)), a.Idempotent(NewModule(t, cfg)))
	if furnished {
		a.Furnish(v1)
		a.Furnish(guarded)
	}
	bare, client := Serve(t, without), Serve(t, with)
	for range 2 { // the second time from what the first has learnt
		asked := 0
		for _, c := range []Call{
			{Method: "GET"}, {Method: "HEAD"}, {Method: "HEAD", Path: "/v1/read"},
			{Method: "OPTIONS"}, {Method: "PUT"}, {Method: "DELETE"}, {Method: "BREW"},
			{Path: "/v1/nope"}, {Path: "/"}, {Path: "/v1"}, {Path: "/v1/"}, {Path: "/v1/pay/"}, {Path: "/v1/*"},
			{Method: "GET", Path: "/v1/orders/1"}, {Method: "PUT", Path: "/v1/orders/1"}, {Path: "/v1/files/a"},
			{Method: "GET", Path: "/v1/static/doc.go"}, {Path: "/v1/static/doc.go"}, {Method: "GET", Path: "/v1/static/nope"},
			{Method: "GET", Path: "/v1/nope", Key: "k"}, {Path: "/v1/nope", Key: "k"}, {Path: "/elsewhere"},
			{Method: "GET", Path: "/v1/any"}, {Method: "PATCH", Path: "/v1/any"}, {Method: "BREW", Path: "/v1/any"},
			{Path: "/v1/pay"}, {Path: "/v1/orders/7"}, {Path: "/v1/orders/7/8"}, {Method: "PUT", Path: "/v1/files/a/b"},
		} {
			want, got := bare.Do(c), client.Do(c)
			if want.Status == http.StatusCreated {
				RequireProblem(t, http.StatusBadRequest, "key_missing", got)
				asked++
				continue
			}
			require.Equal(t, want.Status, got.Status, "%+v", c)
			require.Equal(t, want.Body, got.Body, "%+v", c)
			require.ElementsMatch(t, want.Header["Allow"], got.Header["Allow"], "%+v", c)
			require.Empty(t, got.Result(), "%+v", c)
		}
		require.GreaterOrEqual(t, asked, 4)
	}
	want := bare.Do(Call{Path: "/v1/orders/7"})
	require.True(t, strings.HasSuffix(want.Body, " 7"), want.Body)
	require.Equal(t, want.Body, client.RequireReplay(Call{Path: "/v1/orders/7", Key: "key-1"}).Body)
	// The path belongs to the command, not only the pattern.
	RequireProblem(t, http.StatusConflict, "key_reused", client.Do(Call{Path: "/v1/orders/8", Key: "key-1"}))
}

// In front of the router nobody knows the route: what needs it refuses, whatever the method. A JWT guard needs none.
//
// CONTRACT O-4
func inFrontOfTheRouter(t *testing.T, a Adapter) {
	if a.InFront == nil {
		return
	}
	idem := NewModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay": {Recovery: core.Park}, "GET /v1/ledger": {Roles: []string{"operator"}},
	}})
	jwt := a.JWTGuard(NewVerifier(t))
	for _, guard := range []func(idem *core.Module) Middleware{a.Idempotent, a.RolesGuard, a.KeyGuard, a.Interceptor} {
		app := a.New()
		app.Handle(http.MethodPost, "/v1/pay", Never(t, a))
		app.Handle(http.MethodGet, "/v1/ledger", Never(t, a))
		client := Serve(t, a.InFront(app, jwt, guard(idem)))
		for path, method := range map[string]string{"/v1/pay": "POST", "/v1/ledger": "GET"} {
			got := client.Do(Call{Method: method, Path: path, Key: "key-1"})
			RequireProblem(t, http.StatusInternalServerError, "misconfigured", got)
			require.Contains(t, got.Body, "not known yet; mount it ")
		}
	}
	app := a.New()
	app.Group("/v1", a.Idempotent(idem)).Handle(http.MethodPost, "/pay", text(a, func(Context) string { return "paid" }))
	Serve(t, a.InFront(app, jwt)).RequireReplay(Call{})
}

// A method that is changed behind the router would make the handler of a POST run as a GET, which needs no key.
//
// CONTRACT O-4, K-8
func methodChangedBehindTheRouter(t *testing.T, a Adapter) {
	if !a.SeesChangedMethods {
		return
	}
	var runs, told atomic.Int64
	idem, jwt := NewModule(t, core.Config{Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
		if e.Code == core.CodeMisconfigured && e.Err != nil && e.Route == "/v1/pay" {
			told.Add(1) // the app's own people have to mend it
		}
	})}), a.JWTGuard(NewVerifier(t))
	pay := text(a, func(Context) string { runs.Add(1); return "paid" })
	changed := func(r *http.Request, method string) *http.Request {
		r = r.Clone(r.Context()) // the server looks at its own after the answer
		r.Method = method
		return r
	}
	for _, methods := range [][2]string{{"POST", "GET"}, {"POST", "HEAD"}, {"GET", "POST"}} {
		override := a.Middleware(func(c Context, next func() error) error {
			c.SetRequest(changed(c.Request(), methods[1]))
			return next()
		})
		for _, registered := range [][]string{methods[:1], methods[:]} {
			app := a.New()
			group := app.Group("/v1", override, jwt, a.Idempotent(idem))
			for _, method := range registered {
				group.Handle(method, "/pay", pay)
			}
			got := Serve(t, app).Do(Call{Method: methods[0], Key: "key-1"})
			require.Equal(t, http.StatusInternalServerError, got.Status, methods)
			require.Contains(t, got.Body, "changed after the router had chosen", methods)
			require.Zero(t, runs.Load())
			require.EqualValues(t, 1, told.Swap(0))
		}
	}
	app := a.New()
	app.Group("/v1", jwt, a.Idempotent(idem)).Handle(http.MethodPut, "/pay", pay)
	early := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { app.ServeHTTP(w, changed(r, http.MethodPut)) })
	Serve(t, early).RequireReplay(Call{})
	require.EqualValues(t, 1, runs.Load())
}
