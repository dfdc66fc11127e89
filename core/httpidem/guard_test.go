package httpidem_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// Around the router nobody knows the route: what needs it refuses, whatever the method. A JWT guard needs none.
//
// CONTRACT O-4
func TestAroundTheRouter(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay": {Recovery: core.Park}, "GET /v1/ledger": {Roles: []string{"operator"}},
	}})
	for name, guard := range map[string]httpidem.Middleware{
		"Idempotent": httpidem.Idempotent(idem), "RolesGuard": httpidem.RolesGuard(idem), "KeyGuard": httpidem.KeyGuard(idem),
		"Interceptor": httpidem.Interceptor(idem),
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			never := func(http.ResponseWriter, *http.Request) { t.Error("a handler ran") }
			mux.HandleFunc("POST /v1/pay", never)
			mux.HandleFunc("GET /v1/ledger", never)
			client := adaptertest.Serve(t, httpidem.JWTGuard(adaptertest.NewVerifier(t))(guard(mux)))
			for path, method := range map[string]string{"/v1/pay": "POST", "/v1/ledger": "GET"} {
				got := client.Do(adaptertest.Call{Method: method, Path: path, Key: "key-1"})
				adaptertest.RequireProblem(t, http.StatusInternalServerError, "misconfigured", got)
				require.Contains(t, got.Body, "mount it on the routes")
			}
		})
	}

	router := httpidem.NewRouter()
	router.Group("/v1", httpidem.Idempotent(idem)).HandleFunc("POST /pay", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})
	around := httpidem.Bridge(func(r *http.Request) (authctx.Principal, error) {
		return adaptertest.NewVerifier(t).VerifyRequest(r)
	})(router)
	adaptertest.Serve(t, around).RequireReplay(adaptertest.Call{})
}

// A route is named as its own router spells it, also within another router.
func TestRouterInARouter(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{
		"POST /pay": {Recovery: core.Park}, "POST /refunds/{id}": {Recovery: core.Park},
	}})
	inner := httpidem.NewRouter()
	inner.Use(httpidem.JWTGuard(adaptertest.NewVerifier(t)), httpidem.Idempotent(idem))
	inner.HandleFunc("POST /pay", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Pattern) })
	inner.HandleFunc("POST example.com/refunds/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Pattern+" "+r.PathValue("id"))
	})
	require.NoError(t, httpidem.Audit(inner, idem))
	outer := http.NewServeMux()
	outer.Handle("/v1/", http.StripPrefix("/v1", inner))
	client := adaptertest.Serve(t, outer)
	require.Equal(t, "POST /pay", client.RequireReplay(adaptertest.Call{}).Body)
	require.Equal(t, "POST example.com/refunds/{id} 7", client.RequireReplay(adaptertest.Call{
		Host: "example.com", Path: "/v1/refunds/7", Key: "key-2"}).Body)
	require.Equal(t, http.StatusNotFound, client.Do(adaptertest.Call{Path: "/v1/refunds/7"}).Status)
}

// HEAD is served by routes of GET, and passes without a key.
//
// CONTRACT K-8
func TestHead(t *testing.T) {
	router := httpidem.NewRouter()
	v1 := guarded(t, router, core.Config{})
	v1.HandleFunc("GET /pay", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Handler", "1") })
	got := adaptertest.Serve(t, router).Do(adaptertest.Call{Method: http.MethodHead})
	require.Equal(t, http.StatusOK, got.Status)
	require.Equal(t, "1", got.Header.Get("X-Handler"))
}

// http.TimeoutHandler in front of the guards answers in time. The attempt goes on, and a repeat gets its answer.
//
// CONTRACT
func TestTimeoutHandler(t *testing.T) {
	sqlite := adaptertest.NewSQLite(t)
	goOn, ended := make(chan struct{}), make(chan struct{})
	var runs atomic.Int64
	router := httpidem.NewRouter()
	guarded(t, router, sqlite.Config()).HandleFunc("POST /pay", func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		<-goOn
		adaptertest.Pay(t, r.Context())
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "paid")
	})
	timeout := make(chan struct{})
	impatient := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		go func() { <-timeout; cancel() }()
		http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			router.ServeHTTP(w, r)
		}), time.Hour, "too late").ServeHTTP(w, r.WithContext(ctx))
	})
	client := adaptertest.Serve(t, impatient)
	first := make(chan adaptertest.Answer, 1)
	go func() { first <- client.Do(adaptertest.Call{Key: "key-1"}) }()
	for runs.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(timeout)
	require.Equal(t, http.StatusServiceUnavailable, (<-first).Status)
	close(goOn)
	<-ended
	again := adaptertest.Serve(t, router).Do(adaptertest.Call{Key: "key-1"})
	require.Equal(t, http.StatusCreated, again.Status)
	require.Equal(t, "reused", again.Result())
	require.Equal(t, "paid", again.Body)
	require.EqualValues(t, 1, sqlite.Payments(t))
}

// Inner middleware may replace request and writer.
//
// CONTRACT R-1
func TestReplacedRequestAndWriter(t *testing.T) {
	type own struct{}
	router := httpidem.NewRouter()
	v1 := guarded(t, router, core.Config{})
	v1.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(struct{ http.ResponseWriter }{w}, r.WithContext(context.WithValue(r.Context(), own{}, 1)))
		})
	})
	v1.HandleFunc("POST /pay", func(w http.ResponseWriter, r *http.Request) {
		_, inside := core.Operation(r.Context())
		assert.True(t, inside)
		_, _ = io.WriteString(w, "paid")
	})
	require.Equal(t, "paid", adaptertest.Serve(t, router).RequireReplay(adaptertest.Call{}).Body)
}

// What is behind the recording cannot be reached through it.
//
// CONTRACT R-4
func TestController(t *testing.T) {
	router := httpidem.NewRouter()
	guarded(t, router, core.Config{}).HandleFunc("POST /pay", func(w http.ResponseWriter, _ *http.Request) {
		controller := http.NewResponseController(w)
		for name, err := range map[string]error{
			"SetReadDeadline":  controller.SetReadDeadline(time.Now()),
			"SetWriteDeadline": controller.SetWriteDeadline(time.Now()),
			"EnableFullDuplex": controller.EnableFullDuplex(),
		} {
			assert.ErrorIs(t, err, errors.ErrUnsupported, name)
		}
		_, reads := w.(io.ReaderFrom)
		assert.False(t, reads)
		_, pushes := w.(http.Pusher)
		assert.False(t, pushes)
		w.WriteHeader(http.StatusCreated)
	})
	adaptertest.Serve(t, router).RequireReplay(adaptertest.Call{})
}

// A method that is changed behind the router would make the handler of a POST run as a GET, which needs no key.
//
// CONTRACT O-4, K-8
func TestMethodChangedBehindTheRouter(t *testing.T) {
	runs := 0
	pay := func(w http.ResponseWriter, _ *http.Request) { runs++; w.WriteHeader(http.StatusCreated) }
	override := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r = r.Clone(r.Context()) // the server looks at its own after the answer
			r.Method = r.Header.Get("X-Http-Method-Override")
			next.ServeHTTP(w, r)
		})
	}
	idem := adaptertest.NewModule(t, core.Config{})
	jwt := httpidem.JWTGuard(adaptertest.NewVerifier(t))
	header := map[string]string{"X-Http-Method-Override": http.MethodGet}

	late := httpidem.NewRouter()
	late.Group("/v1", override, jwt, httpidem.Idempotent(idem)).HandleFunc("POST /pay", pay)
	mux := http.NewServeMux() // takes a tab, too
	mux.Handle("POST\t/v1/pay", override(jwt(httpidem.Idempotent(idem)(http.HandlerFunc(pay)))))
	for _, router := range []http.Handler{late, mux} {
		got := adaptertest.Serve(t, router).Do(adaptertest.Call{Headers: header})
		adaptertest.RequireProblem(t, http.StatusInternalServerError, "misconfigured", got)
		require.Contains(t, got.Body, "change it in front of the router")
		require.Zero(t, runs)
	}

	for from, to := range map[string]string{http.MethodPost: http.MethodHead, http.MethodGet: http.MethodPost} {
		late := httpidem.NewRouter()
		late.Group("/v1", override, jwt, httpidem.Idempotent(idem)).HandleFunc(from+" /pay", pay)
		header["X-Http-Method-Override"] = to
		got := adaptertest.Serve(t, late).Do(adaptertest.Call{Method: from, Key: "key-1", Headers: header})
		require.Equal(t, http.StatusInternalServerError, got.Status, "%s to %s", from, to)
		require.Zero(t, runs)
	}

	early := httpidem.NewRouter()
	early.Group("/v1", jwt, httpidem.Idempotent(idem)).HandleFunc("PUT /pay", pay)
	header["X-Http-Method-Override"] = http.MethodPut
	got := adaptertest.Serve(t, override(early)).Do(adaptertest.Call{Key: "key-1", Headers: header})
	require.Equal(t, http.StatusCreated, got.Status, got.Body)
	require.Equal(t, 1, runs)
}
