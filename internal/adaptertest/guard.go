package adaptertest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// Never is a handler that fails the test when it runs.
func Never(t testing.TB, a Adapter) Handler {
	return a.Handler(func(Context) error { t.Error("a handler ran"); return nil })
}

// text is a handler that answers 201 with text.
func text(a Adapter, text func(c Context) string) Handler {
	return a.Handler(func(c Context) error { return c.String(http.StatusCreated, text(c)) })
}

// me answers who the caller is.
func me(a Adapter) Handler {
	return a.Handler(func(c Context) error {
		p, _ := authctx.FromContext(c.Request().Context())
		return c.String(http.StatusOK, strings.Join(append([]string{p.Issuer, p.Subject}, p.Roles...), " "))
	})
}

// CONTRACT O-1, P-1
func jwtGuard(t *testing.T, a Adapter) {
	app := a.New()
	app.Use(a.JWTGuard(NewVerifier(t)))
	app.Handle(http.MethodGet, "/v1/me", me(a))
	client := Serve(t, app)
	call := Call{Method: http.MethodGet, Path: "/v1/me"}
	require.Equal(t, "https://issuer.example customer-1 customer", client.Do(call).Body)

	foreign := ClaimsOf("customer-1")
	foreign["iss"] = "https://other.example"
	anonymous := ClaimsOf("")
	expired := ClaimsOf("customer-1")
	expired["exp"] = time.Now().Add(-time.Hour).Unix()
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, ClaimsOf("customer-1")).
		SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)
	for name, token := range map[string]string{
		"none": "-", "garbage": "gar.ba.ge", "another issuer": Sign(t, foreign), "nobody": Sign(t, anonymous),
		"expired": Sign(t, expired), "alg none": unsigned, "cut": client.Token[:len(client.Token)-1],
		"huge": strings.Repeat("A", 100<<10),
	} {
		call.Token = token
		got := client.Do(call)
		RequireProblem(t, http.StatusUnauthorized, "unauthenticated", got)
		require.Equal(t, "Bearer", got.Header.Get("WWW-Authenticate"), name)
		require.Contains(t, got.Body, `"detail":"a valid bearer token is required"`, name)
		require.NotContains(t, got.Body, token, name)
	}
}

// A bridge opens nothing that the middleware before it did not verify.
//
// CONTRACT O-2, O-7
func bridge(t *testing.T, a Adapter) {
	claims := authctx.Claims{Issuers: []string{Issuer}}
	verified := ClaimsOf("customer-1", "customer")
	var left func(c Context) // what the app's middleware leaves behind
	var told []core.Event
	observer := core.ObserverFunc(func(_ context.Context, e core.Event) { told = append(told, e) })
	app := a.New()
	app.Use(a.Middleware(func(c Context, next func() error) error { left(c); return next() }))
	app.Handle(http.MethodGet, "/token", me(a), a.Bridge(func(c Context) (authctx.Principal, error) {
		token, _ := c.Get("user").(*jwt.Token)
		return claims.FromToken(token)
	}))
	app.Handle(http.MethodGet, "/claims", me(a), a.Bridge(func(c Context) (authctx.Principal, error) {
		payload, _ := c.Get("claims").(jwt.MapClaims)
		return claims.Principal(payload)
	}))
	app.Handle(http.MethodGet, "/careless", me(a), a.Bridge(func(Context) (authctx.Principal, error) {
		return authctx.Principal{}, nil
	}))
	app.Handle(http.MethodGet, "/error", me(a), a.Bridge(func(Context) (authctx.Principal, error) {
		return authctx.Principal{Issuer: Issuer, Subject: "customer-1"}, errors.New("secret reason")
	}, observer))
	client := Serve(t, app)
	get := func(path string) Answer { return client.Do(Call{Method: http.MethodGet, Path: path}) }

	left = func(c Context) {
		c.Set("user", &jwt.Token{Valid: true, Claims: verified})
		c.Set("claims", verified)
	}
	require.Equal(t, Issuer+" customer-1 customer", get("/token").Body)
	require.Equal(t, Issuer+" customer-1 customer", get("/claims").Body)
	RequireProblem(t, http.StatusUnauthorized, "unauthenticated", get("/careless"))
	RequireProblem(t, http.StatusUnauthorized, "unauthenticated", get("/error"))
	require.NotContains(t, get("/error").Body, "secret")
	require.Len(t, told, 2)
	require.Equal(t, "/error", told[0].Route)
	require.ErrorContains(t, told[0].Err, "*errors.errorString")

	anonymous := ClaimsOf("")
	for name, leaves := range map[string]func(c Context){
		"nothing": func(Context) {},
		"nil":     func(c Context) { c.Set("user", (*jwt.Token)(nil)); c.Set("claims", jwt.MapClaims(nil)) },
		"another type": func(c Context) {
			c.Set("user", "customer-1")
			c.Set("claims", map[string]string{"sub": "customer-1"})
		},
		"not valid":   func(c Context) { c.Set("user", &jwt.Token{Claims: verified}) },
		"no subject":  func(c Context) { c.Set("user", &jwt.Token{Valid: true, Claims: anonymous}); c.Set("claims", anonymous) },
		"empty":       func(c Context) { c.Set("claims", jwt.MapClaims{}) },
		"some claims": func(c Context) { c.Set("claims", jwt.MapClaims{"sub": "customer-1", "iss": Issuer}) },
	} {
		left = leaves
		RequireProblem(t, http.StatusUnauthorized, "unauthenticated", get("/token"))
		RequireProblem(t, http.StatusUnauthorized, "unauthenticated", get("/claims"))
		require.Equal(t, "Bearer", get("/token").Header.Get("WWW-Authenticate"), name)
	}
}

// 401, 403, 400, 413, in this order, and nothing runs.
//
// CONTRACT O-1, H-5
func orderOfChecks(t *testing.T, a Adapter) {
	idem := NewModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay": {Recovery: core.Park, Roles: []string{"customer"}, MaxBody: 10},
	}})
	var runs atomic.Int64
	guard, handler := a.JWTGuard(NewVerifier(t)), text(a, func(Context) string { runs.Add(1); return "paid" })
	composed, parts := a.New(), a.New()
	composed.Group("/v1", guard, a.Idempotent(idem)).Handle(http.MethodPost, "/pay", handler)
	parts.Group("/v1", guard, a.RolesGuard(idem)).
		Handle(http.MethodPost, "/pay", handler, a.KeyGuard(idem), a.Interceptor(idem))
	for name, app := range map[string]App{"Idempotent": composed, "its parts": parts} {
		t.Run(name, func(t *testing.T) {
			runs.Store(0)
			client := Serve(t, app)
			c := Call{Body: strings.Repeat("x", 11)}
			c.Token = "-"
			RequireProblem(t, http.StatusUnauthorized, "unauthenticated", client.Do(c))
			c.Token = Sign(t, ClaimsOf("customer-1", "seller"))
			RequireProblem(t, http.StatusForbidden, "forbidden", client.Do(c))
			c.Token = ""
			RequireProblem(t, http.StatusBadRequest, "key_missing", client.Do(c))
			c.Key = "key " + name
			RequireProblem(t, http.StatusBadRequest, "key_invalid", client.Do(c))
			c.Key = "key-" + strings.ReplaceAll(name, " ", "-")
			RequireProblem(t, http.StatusRequestEntityTooLarge, "body_too_large", client.Do(c))
			require.Zero(t, runs.Load())
			c.Body = "{}"
			require.Equal(t, http.StatusCreated, client.RequireReplay(c).Status)
			require.EqualValues(t, 1, runs.Load())
		})
	}
}

// CONTRACT O-2
func withoutPrincipal(t *testing.T, a Adapter) {
	idem := NewModule(t, core.Config{})
	app := a.New()
	guards := map[string]Middleware{"/idempotent": a.Idempotent(idem), "/roles": a.RolesGuard(idem),
		"/key": a.KeyGuard(idem), "/interceptor": a.Interceptor(idem)}
	for path, guard := range guards {
		app.Handle(http.MethodPost, path, Never(t, a), guard)
	}
	client := Serve(t, app)
	for path := range guards {
		got := client.Do(Call{Path: path, Key: "key-1"})
		RequireProblem(t, http.StatusUnauthorized, "unauthenticated", got)
		require.Equal(t, "Bearer", got.Header.Get("WWW-Authenticate"))
	}
}

// A caller who lost the role gets no replay.
//
// CONTRACT O-3, S-2
func lostRole(t *testing.T, a Adapter) {
	cfg := core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park, Roles: []string{"customer"}}}}
	client := paying(t, a, cfg, func(c Context) error { return c.String(http.StatusCreated, "paid") })
	client.RequireReplay(Call{Key: "key-1"})
	demoted := Sign(t, ClaimsOf("customer-1", "guest"))
	RequireProblem(t, http.StatusForbidden, "forbidden", client.Do(Call{Key: "key-1", Token: demoted}))
	again := client.Do(Call{Key: "key-1", Token: Sign(t, ClaimsOf("customer-1", "guest", "customer"))})
	require.Equal(t, "reused", again.Result(), "a refreshed token is the same principal")
}

// CONTRACT O-4
func misconfigured(t *testing.T, a Adapter) {
	idem := NewModule(t, core.Config{Routes: core.Routes{
		"POST /twice": {Recovery: core.Park}, "POST /nested": {Recovery: core.Park}, "POST /keyless": {Recovery: core.Park},
	}})
	app, never := a.New(), Never(t, a)
	app.Use(a.JWTGuard(NewVerifier(t)))
	idempotent := a.Idempotent(idem)
	app.Handle(http.MethodPost, "/undeclared", never, idempotent)
	app.Handle(http.MethodPost, "/twice", never, idempotent, idempotent)
	app.Handle(http.MethodPost, "/nested", never, idempotent, a.Interceptor(idem))
	app.Handle(http.MethodPost, "/keyless", never, a.RolesGuard(idem), a.Interceptor(idem))
	client := Serve(t, app)
	for path, code := range map[string]string{
		"/undeclared": "route_undeclared", "/twice": "misconfigured", "/nested": "misconfigured", "/keyless": "misconfigured",
	} {
		RequireProblem(t, http.StatusInternalServerError, code, client.Do(Call{Path: path, Key: "key" + path}))
	}
}

// The handler reads the body as if nobody had read it before.
//
// CONTRACT H-5
func bodyIsWhole(t *testing.T, a Adapter) {
	client := paying(t, a, core.Config{}, func(c Context) error {
		assert.EqualValues(t, 12, c.Request().ContentLength)
		body, err := io.ReadAll(c.Request().Body)
		assert.NoError(t, err)
		return c.String(http.StatusCreated, string(body))
	})
	require.Equal(t, `{"amount":1}`, client.RequireReplay(Call{Body: `{"amount":1}`}).Body)
}

// Two shops that are told apart by their hosts.
//
// CONTRACT H-7
func twoShopsAndOneKey(t *testing.T, a Adapter) {
	app := a.New()
	Guarded(t, a, app, core.Config{Policy: core.Policy{Recovery: core.Park, CommandHeaders: []string{"Host"}}}).
		Handle(http.MethodPost, "/pay", text(a, func(c Context) string { return "paid at " + c.Request().Host }))
	TwoShopsAndOneKey(t, app)
}

// TwoShopsAndOneKey requires an app that answers POST /v1/pay at a.example and b.example to tell them apart.
//
// CONTRACT H-7
func TwoShopsAndOneKey(t *testing.T, app http.Handler) {
	t.Helper()
	client := Serve(t, app)
	require.Equal(t, "paid at a.example", client.RequireReplay(Call{Host: "a.example"}).Body)
	require.Equal(t, "reused", client.Do(Call{Key: "key-1", Host: "A.EXAMPLE"}).Result())
	RequireProblem(t, http.StatusConflict, "key_reused", client.Do(Call{Key: "key-1", Host: "b.example"}))
	require.Equal(t, "paid at b.example", client.RequireReplay(Call{Key: "key-2", Host: "b.example"}).Body)
}

// A method that nobody has heard of is not safe: it needs a key, or its route is refused.
//
// CONTRACT K-8, O-4
func customMethods(t *testing.T, a Adapter) {
	methods := a.Methods
	require.Contains(t, methods, "LINK")
	undeclared := NewModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}})
	app, guard := a.New(), a.JWTGuard(NewVerifier(t))
	table := app.Group("/table", guard, a.Idempotent(undeclared))
	guarded, only := Guarded(t, a, app, core.Config{}), app.Group("/only", guard, a.Idempotent(NewModule(t, core.Config{})))
	pay := text(a, func(c Context) string { return c.Request().Method })
	only.Handle(http.MethodPost, "/pay", pay)
	for _, method := range methods {
		guarded.Handle(method, "/pay", pay)
		table.Handle(method, "/pay", pay)
	}
	client := Serve(t, app)
	for _, method := range methods {
		RequireProblem(t, http.StatusBadRequest, "key_missing", client.Do(Call{Method: method}))
		require.Equal(t, method, client.RequireReplay(Call{Method: method, Key: method}).Body)
		RequireProblem(t, http.StatusConflict, "key_reused", client.Do(Call{Method: "LINK", Key: method, Body: "x"}))
		RequireProblem(t, http.StatusInternalServerError, "route_undeclared",
			client.Do(Call{Method: method, Path: "/table/pay", Key: method}))
	}
	for _, method := range append([]string{"post", "Post", "get"}, methods...) { // the router knows no such route
		got := client.Do(Call{Method: method, Path: "/only/pay"})
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, got.Status, method)
	}
}

// A stranger writes nothing of any length into the log: a method that HTTP does not define is _OTHER.
//
// CONTRACT O-7, P-1
func longMethod(t *testing.T, a Adapter) {
	var log syncBuffer
	methods := make(chan string, 100)
	debug := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	observer := core.Observers(core.LogObserver(debug),
		core.ObserverFunc(func(_ context.Context, e core.Event) { methods <- e.Method }))
	app := a.New()
	guard := a.JWTGuard(NewVerifier(t), core.LogObserver(debug), observer)
	for prefix, cfg := range map[string]core.Config{
		"/own": {}, "/table": {Routes: core.Routes{"POST /table/pay": {Recovery: core.Park}}},
	} {
		cfg.Observer = observer
		group := app.Group(prefix, guard, a.Idempotent(NewModule(t, cfg)))
		group.Handle("", "/pay", text(a, func(Context) string { return "paid" }))
		group.Handle("LINK", "/link", text(a, func(Context) string { return "linked" }))
	}
	client := Serve(t, app)
	for _, prefix := range []string{"/own", "/table"} {
		for _, call := range []Call{
			{Token: "-"}, {Token: "forged"}, {}, {Key: "key-1"}, {Key: "key-1"}, {Key: "key-1", Body: "x"},
		} {
			call.Method, call.Path = strings.Repeat("M", 500<<10), prefix+"/pay"
			client.Do(call)
			call.Method, call.Path = "LINK", prefix+"/link"
			client.Do(call)
		}
	}
	close(methods)
	told := 0
	for method := range methods {
		told++
		require.Equal(t, "_OTHER", method[:min(len(method), 20)])
	}
	require.Greater(t, told, 10)
	require.Less(t, len(log.String()), 16<<10)
}
