package otelidem_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/otelidem"
	"github.com/auth19/idem/ginidem"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// An app writes events to its log and to OpenTelemetry. With the exporter for Prometheus as the reader, the metrics are at
// /metrics.
func Example() {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))

	telemetry, err := otelidem.Observer(otelidem.WithMeterProvider(provider))
	check(err)
	idem, err := core.New(core.Config{
		Store:    memstore.New(),
		Routes:   core.Routes{"POST /v1/payments": {Recovery: core.Park}},
		Observer: core.Observers(core.LogObserver(slog.Default()), telemetry),
	})
	check(err)
	stop, err := telemetry.Watch(idem) // the gauges of the store
	check(err)
	defer stop()

	r := gin.New()
	caller := func(*gin.Context) (authctx.Principal, error) { return authctx.User("shop", 7) }
	r.POST("/v1/payments", ginidem.Bridge(caller, telemetry), ginidem.Idempotent(idem),
		func(c *gin.Context) { c.Status(http.StatusCreated) })
	for range 3 {
		request := httptest.NewRequest(http.MethodPost, "/v1/payments", http.NoBody)
		request.Header.Set("Idempotency-Key", "one-key-per-intent")
		r.ServeHTTP(httptest.NewRecorder(), request)
	}

	var all metricdata.ResourceMetrics
	check(reader.Collect(context.Background(), &all))
	for _, m := range all.ScopeMetrics[0].Metrics {
		if requests, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "idem.requests" {
			for _, p := range requests.DataPoints {
				route, _ := p.Attributes.Value("http.route")
				result, _ := p.Attributes.Value("idem.result")
				fmt.Println(route.AsString(), result.AsString(), p.Value)
			}
		}
	}

	// Unordered output:
	// /v1/payments created 1
	// /v1/payments reused 2
}
