package chiidem_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/httpidem/chiidem"
	"github.com/auth19/idem/internal/adaptertest"
	"github.com/auth19/idem/internal/adaptertest/nethttp"
)

func TestMain(m *testing.M) {
	for _, method := range custom {
		chi.RegisterMethod(method)
	}
	goleak.VerifyTestMain(m)
}

// custom are methods that chi takes once they are registered.
var custom = []string{"PURGE", "LINK", "PROPFIND", "CONNECTED"}

func TestAdapter(t *testing.T)  { adaptertest.Run(t, adapter) }
func TestContract(t *testing.T) { adaptertest.Contract(t, adapter) }

// adapter is httpidem on chi.
var adapter = nethttp.New(func() nethttp.Router { r := chi.NewRouter(); return &router{root: r, here: r} }, custom, "*", false)

// router is a group of routes. Its middleware stands behind chi's router.
type router struct {
	root, here chi.Router
	prefix     string
}

func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.root.ServeHTTP(w, req) }
func (r *router) Use(m ...httpidem.Middleware)                       { r.here = r.here.With(m...) }
func (r *router) Audit(idem *core.Module) error                      { return chiidem.Audit(r.root, idem) }

func (r *router) Group(prefix string, m ...httpidem.Middleware) nethttp.Router {
	return &router{r.root, r.here.With(m...), r.prefix + prefix}
}

func (r *router) Handle(method, path string, h http.Handler) {
	if method == "" {
		r.here.Handle(r.prefix+path, h)
		return
	}
	r.here.Method(method, r.prefix+path, h)
}

// CONTRACT D-2, O-4
func TestAudit(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{"POST /v1/orders/{id}/refunds": {Recovery: core.Park}}})
	jwt, money, other := httpidem.JWTGuard(adaptertest.NewVerifier(t)), httpidem.Idempotent(idem), middleware.Recoverer
	never := func(http.ResponseWriter, *http.Request) { t.Error("a handler ran") }
	sub := func(m ...httpidem.Middleware) chi.Router {
		r := chi.NewRouter()
		r.Use(m...)
		return r
	}
	const early = "POST /v1/orders/{id}/refunds: is unproven: a guard stands in front of the router"
	for name, test := range map[string]struct {
		mount func(r chi.Router)
		want  string
	}{
		"in a group": {func(r chi.Router) {
			r.Use(jwt, other)
			r.Route("/v1", func(r chi.Router) {
				r.Group(func(r chi.Router) {
					r.Use(money)
					r.Post("/orders/{id}/refunds", never)
				})
			})
		}, ""},
		"in mounted routers": {func(r chi.Router) {
			v1, orders := sub(jwt), sub(other)
			orders.With(money).Post("/refunds/", never)
			v1.Mount("/orders/{id}", orders)
			r.With(other).Mount("/v1", v1)
		}, ""},
		"on the whole router": {func(r chi.Router) {
			r.Use(jwt, money)
			r.Post("/v1/orders/{id}/refunds", never)
		}, early},
		"on a router of its own": {func(r chi.Router) {
			r.Route("/v1", func(r chi.Router) {
				r.Use(jwt, money)
				r.Post("/orders/{id}/refunds", never)
			})
		}, early},
		"on a mounted router": {func(r chi.Router) {
			v1 := sub()
			v1.Post("/orders/{id}/refunds", never)
			r.With(jwt, money).Mount("/v1", v1)
		}, early},
		"another handler": {func(r chi.Router) {
			r.With(jwt, money).Post("/v1/orders/{id}/refunds", never)
			r.Mount("/admin", http.NotFoundHandler())
		}, "POST /admin/*: this route is not in the table"},
	} {
		t.Run(name, func(t *testing.T) {
			r := chi.NewRouter()
			test.mount(r)
			r.Get("/healthz", never)
			err := chiidem.Audit(r, idem)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}

	r := chi.NewRouter()
	r.With(jwt, money).Post("/v1/orders/{id}/refunds", never)
	r.Post("/", never)
	r.HandleFunc("/any", never)
	err := chiidem.Audit(r, idem)
	require.ErrorContains(t, err, "POST /: this route is not in the table")
	require.ErrorContains(t, err, "PUT /any: this route is not in the table")
	require.NotContains(t, err.Error(), "* /any", "it is named by each method")
}

// What the audit calls unproven does not run either: the route is not known, or is another one.
//
// CONTRACT O-4
func TestInFrontOfTheRouter(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}})
	guards := []httpidem.Middleware{httpidem.JWTGuard(adaptertest.NewVerifier(t)), httpidem.Idempotent(idem)}
	never := func(http.ResponseWriter, *http.Request) { t.Error("a handler ran") }
	whole, own := chi.NewRouter(), chi.NewRouter()
	whole.Use(guards...)
	whole.Post("/v1/pay", never)
	own.Route("/v1", func(r chi.Router) {
		r.Use(guards...)
		r.Post("/pay", never)
	})
	for code, r := range map[string]chi.Router{"misconfigured": whole, "route_undeclared": own} {
		adaptertest.RequireProblem(t, http.StatusInternalServerError, code,
			adaptertest.Serve(t, r).Do(adaptertest.Call{Key: "key-1"}))
	}
}

// chi's own middleware in front of the guards, and a path with parameters behind two routers.
func TestStockMiddleware(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{"POST /v1/orders/{id}/refunds": {Recovery: core.Park}}})
	r := chi.NewRouter()
	r.Use(middleware.RequestID, middleware.Recoverer, middleware.StripSlashes, middleware.Timeout(time.Minute),
		middleware.Compress(5), middleware.CleanPath, httpidem.JWTGuard(adaptertest.NewVerifier(t)))
	r.Route("/v1", func(r chi.Router) {
		r.Group(func(r chi.Router) {
			r.Use(httpidem.Idempotent(idem))
			r.Post("/orders/{id}/refunds", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Pattern+" "+chi.URLParam(r, "id")+" "+r.PathValue("id"))
			})
		})
	})
	require.NoError(t, chiidem.Audit(r, idem))
	client := adaptertest.Serve(t, r)
	require.Equal(t, "/v1/orders/{id}/refunds 7 7", client.RequireReplay(adaptertest.Call{Path: "/v1/orders/7/refunds"}).Body)
	adaptertest.RequireProblem(t, http.StatusConflict, "key_reused",
		client.Do(adaptertest.Call{Path: "/v1/orders/8/refunds", Key: "key-1"}))
	require.Equal(t, http.StatusNotFound, client.Do(adaptertest.Call{Path: "/v1/nope"}).Status)
}

// chi.Chain keeps the slice that it is given, and makes the chain at once. What the app does to the slice afterwards is not
// what chi runs.
//
// CONTRACT D-2
func TestAuditOfChains(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	jwt, money := httpidem.JWTGuard(adaptertest.NewVerifier(t)), httpidem.Idempotent(idem)
	other := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, r) })
	}
	never := func(http.ResponseWriter, *http.Request) { t.Error("a handler ran") }
	type list = []func(http.Handler) http.Handler
	for name, test := range map[string]struct {
		open, then list
		want       bool
	}{
		"nobody changes it":     {list{jwt, money}, nil, false},
		"behind another":        {list{other, jwt, money}, nil, false},
		"guards put into it":    {list{other, other}, list{jwt, money}, true},
		"its second one":        {list{jwt, other}, list{jwt, money}, true},
		"the other way round":   {list{money, jwt}, list{jwt, money}, true},
		"an open handler":       {list{}, list{}, false},
		"taken out":             {list{jwt, money}, list{jwt, other}, false}, // another finding
		"appended to its array": {append(make(list, 0, 4), jwt), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := chi.NewRouter()
			r.Method(http.MethodPost, "/v1/pay", chi.Chain(test.open...).HandlerFunc(never))
			copy(test.open, test.then)
			err := chiidem.Audit(r, idem)
			if test.want {
				require.ErrorContains(t, err, "POST /v1/pay: is unproven: chi runs something else than its list of middleware says")
			} else if err != nil {
				require.NotContains(t, err.Error(), "unproven")
			}
		})
	}

	base := append(make(list, 0, 4), jwt)
	r := chi.NewRouter()
	r.With(append(base, other)...).Post("/v1/open", never)
	r.Method(http.MethodPost, "/v1/chain", chi.Chain(append(base, other)...).HandlerFunc(never))
	r.With(append(base, money)...).Post("/v1/pay", never) // over the same array
	sub := chi.NewRouter()
	sub.With(money).Post("/pay", never)
	r.Mount("/v2", chi.Chain(other).Handler(sub)) // no router of chi
	err := chiidem.Audit(r, idem)
	require.ErrorContains(t, err, "POST /v1/open: is not behind the roles guard")
	require.ErrorContains(t, err, "POST /v1/chain: is unproven")
	require.ErrorContains(t, err, "POST /v2/*: is not behind")
	require.NotContains(t, err.Error(), "/v1/pay")
}
