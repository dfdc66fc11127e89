package httpidem_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// CONTRACT D-2, O-4
func TestAudit(t *testing.T) {
	type guards = adaptertest.Guards
	on := func(a adaptertest.App, g guards, method, path string, m ...adaptertest.Middleware) {
		a.Group("/v1").Handle(method, path, g.Never, m...)
	}
	adaptertest.Audit(t, adapter, map[string]adaptertest.Audited{
		"on a host": {Mount: func(a adaptertest.App, g guards) {
			on(a, g, "POST", "a.example/pay", g.JWT, g.Idempotent)
			on(a, g, "POST\t", "b.example/pay")
		}, Want: []string{"POST b.example/v1/pay: is not behind"}, WantNot: "a.example"},
		"everything else": {Mount: func(a adaptertest.App, g guards) {
			on(a, g, "POST", "/pay", g.JWT, g.Idempotent)
			a.Handle("", "/", g.Never)
		}, Want: []string{"POST /: this route is not in the table"}},
	})
}

// Groups share the routes, and do not share the middleware.
func TestGroups(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}})
	router, never := httpidem.NewRouter(), http.NotFoundHandler()
	v1 := router.Group("/v1", httpidem.JWTGuard(adaptertest.NewVerifier(t)))
	money := v1.Group("", httpidem.Idempotent(idem))
	v1.Use(func(next http.Handler) http.Handler { return next })
	money.Handle("POST /pay", never)
	v1.Handle("GET /payments", never)
	router.Handle("GET /healthz", never)
	for _, r := range []*httpidem.Router{router, v1, money} {
		require.NoError(t, httpidem.Audit(r, idem))
	}
	v1.Handle("POST /refunds", never)
	require.ErrorContains(t, httpidem.Audit(money, idem), "POST /v1/refunds: this route is not in the table")
	require.Panics(t, func() { money.Handle("POST /pay", never) })
	require.Panics(t, func() { money.Handle("POST /{", never) })
}
