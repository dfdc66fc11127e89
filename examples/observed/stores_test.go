package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/otelidem"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

const measuredRoute = "/v1/payouts"

// measuredApps are apps of both frameworks whose one route pays out, and answers with 502.
var measuredApps = map[string]func(*core.Module) http.Handler{
	"gin": func(idem *core.Module) http.Handler {
		r := gin.New()
		caller := func(*gin.Context) (authctx.Principal, error) { return authctx.User("shop", 7) }
		r.POST(measuredRoute, ginidem.Bridge(caller), ginidem.Idempotent(idem), func(c *gin.Context) { c.Status(http.StatusBadGateway) })
		return r
	},
	"echo": func(idem *core.Module) http.Handler {
		e := echo.New()
		caller := func(echo.Context) (authctx.Principal, error) { return authctx.User("shop", 7) }
		e.POST(measuredRoute, func(c echo.Context) error { return c.NoContent(http.StatusBadGateway) },
			echoidem.Bridge(caller), echoidem.Idempotent(idem))
		return e
	},
}

// The store keeps the trace of an attempt, to which the span of a repeat links, and knows what is open.
func TestTelemetryOnDatabases(t *testing.T) {
	gin.SetMode(gin.TestMode)
	for framework, newApp := range measuredApps {
		t.Run(framework+" on sqlite", func(t *testing.T) { measure(t, newApp, "sqlite:"+filepath.Join(t.TempDir(), "app.db")) })
		t.Run(framework+" on postgres", func(t *testing.T) { measure(t, newApp, pgtest.URL(t)) })
	}
}

func measure(t *testing.T, newApp func(*core.Module) http.Handler, address string) {
	where, err := database.Parse(address)
	require.NoError(t, err)
	db, err := where.Open(t.Context(), 4)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, database.Close(db)) })
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	reader, spans := metric.NewManualReader(), tracetest.NewSpanRecorder()
	telemetry, err := otelidem.Observer(otelidem.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		otelidem.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
	require.NoError(t, err)
	idem, err := core.New(core.Config{Store: store, Observer: telemetry,
		Routes: core.Routes{"POST " + measuredRoute: {Recovery: core.Park, MaxOpen: 10}}})
	require.NoError(t, err)
	stop, err := telemetry.Watch(idem)
	require.NoError(t, err)
	defer stop()
	app := newApp(idem)
	for _, want := range []int{http.StatusBadGateway, http.StatusConflict} {
		r := httptest.NewRequest(http.MethodPost, measuredRoute, strings.NewReader(`{}`))
		r.Header.Set("Idempotency-Key", "k-1")
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, w.Body)
	}

	attempt, repeat := spanNamed(t, spans, "idem.attempt"), spanNamed(t, spans, "idem.refusal")
	require.Len(t, repeat.Links(), 1)
	require.Equal(t, attempt.SpanContext().TraceID(), repeat.Links()[0].SpanContext.TraceID())
	require.Equal(t, attempt.SpanContext().SpanID(), repeat.Links()[0].SpanContext.SpanID())

	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	var open []int64
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "idem.operations.open" {
			for _, point := range m.Data.(metricdata.Gauge[int64]).DataPoints {
				open = append(open, point.Value)
			}
		}
	}
	require.Equal(t, []int64{1}, open)
}

func spanNamed(t *testing.T, spans *tracetest.SpanRecorder, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	for _, span := range spans.Ended() {
		if span.Name() == name {
			return span
		}
	}
	require.Fail(t, "no span "+name)
	return nil
}
