package otelidem_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/otelidem"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	goleak.VerifyTestMain(m)
}

// telemetry is an SDK whose metrics and spans a test can read.
type telemetry struct {
	*otelidem.Telemetry
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer
}

func newTelemetry(t testing.TB) *telemetry {
	t.Helper()
	got := &telemetry{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(got.spans))
	got.tracer = tracers.Tracer("the server's")
	var err error
	got.Telemetry, err = otelidem.Observer(
		otelidem.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(got.reader))),
		otelidem.WithTracerProvider(tracers))
	require.NoError(t, err)
	return got
}

// collect returns the metrics by their names.
func (g *telemetry) collect(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, g.reader.Collect(t.Context(), &all))
	found := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// handler answers as a test wants.
type handler func(w http.ResponseWriter, r *http.Request)

// app is a real app of a framework: the guards in front of a handler, and the server's span in front of all.
type app struct {
	http.Handler
	*telemetry
	module *core.Module
	handle handler
}

const (
	pattern = "/v1/payments/:id/capture"
	path    = "/v1/payments/secret-path/capture"
)

var routes = core.Routes{
	"POST " + pattern: {Recovery: core.Park, Roles: []string{"customer"}, Wait: 5 * time.Second},
	"POST /v1/orders": {Recovery: core.Resume},
}

// frameworks are the two adapters.
var frameworks = map[string]func(*testing.T, core.Config) *app{"gin": newGin, "echo": newEcho}

func newApp(t testing.TB, cfg core.Config) *app {
	t.Helper()
	a := &app{telemetry: newTelemetry(t), handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }}
	if cfg.Store == nil {
		cfg.Store = memstore.New()
	}
	if cfg.Routes == nil {
		cfg.Routes = routes
	}
	if cfg.Observer == nil {
		cfg.Observer = core.Observers(core.ObserverFunc(func(context.Context, core.Event) { panic("another observer") }), a)
	}
	var err error
	a.module, err = core.New(cfg)
	require.NoError(t, err)
	return a
}

func newGin(t *testing.T, cfg core.Config) *app {
	a := newApp(t, cfg)
	engine := gin.New()
	engine.Use(func(c *gin.Context) {
		ctx, span := a.tracer.Start(c.Request.Context(), "server")
		defer span.End()
		c.Request = c.Request.WithContext(ctx)
		c.Next()
	}, gin.RecoveryWithWriter(nil))
	handle := func(c *gin.Context) { a.handle(c.Writer, c.Request) }
	guarded := engine.Group("/v1", ginidem.JWTGuard(verifier(t), a), ginidem.Idempotent(a.module))
	guarded.POST("/payments/:id/capture", handle)
	guarded.POST("/orders", handle)
	guarded.POST("/undeclared", handle)
	a.Handler = engine
	return a
}

func newEcho(t *testing.T, cfg core.Config) *app {
	a := newApp(t, cfg)
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			ctx, span := a.tracer.Start(c.Request().Context(), "server")
			defer span.End()
			defer func() {
				if recover() != nil {
					err = echo.ErrInternalServerError
				}
			}()
			c.SetRequest(c.Request().WithContext(ctx))
			return next(c)
		}
	})
	handle := func(c echo.Context) error { a.handle(c.Response(), c.Request()); return nil }
	guarded := e.Group("/v1", echoidem.JWTGuard(verifier(t), a), echoidem.Idempotent(a.module))
	guarded.POST("/payments/:id/capture", handle)
	guarded.POST("/orders", handle)
	guarded.POST("/undeclared", handle)
	a.Handler = e
	return a
}

var secret = []byte("a secret of at least 32 bytes, for tests")

func verifier(t *testing.T) *authctx.Verifier {
	t.Helper()
	v, err := authctx.New(authctx.Config{Issuer: "https://secret-issuer.example", Audience: []string{"payments"},
		Algorithms: []string{"HS256"}, Keyfunc: func(*jwt.Token) (any, error) { return secret, nil }})
	require.NoError(t, err)
	return v
}

func token(t *testing.T, role string) string {
	t.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": "https://secret-issuer.example",
		"aud": "payments", "sub": "secret-subject", "roles": []string{role}, "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(secret)
	require.NoError(t, err)
	return signed
}

// send sends a command of a customer, changed by edits.
func (a *app) send(t *testing.T, key, body string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token(t, "customer"))
	r.Header.Set("Idempotency-Key", key)
	for _, edit := range edits {
		edit(r)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

func to(path string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = path } }

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func status(code int) handler {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
