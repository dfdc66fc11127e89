package otelidem_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/otelidem"
	"github.com/auth19/idem/ginidem"
)

// What the observer adds to a first request and to a replay, in memory: that is where it shows most.
func BenchmarkObserver(b *testing.B) {
	gin.SetMode(gin.TestMode)
	observers := map[string]func() []otelidem.Option{
		"none": nil,
		"metrics": func() []otelidem.Option {
			return []otelidem.Option{otelidem.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())))}
		},
		"metrics and spans that are not sampled": func() []otelidem.Option {
			return []otelidem.Option{
				otelidem.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))),
				otelidem.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))),
			}
		},
		"metrics and spans": func() []otelidem.Option {
			return []otelidem.Option{
				otelidem.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))),
				otelidem.WithTracerProvider(sdktrace.NewTracerProvider()),
			}
		},
	}
	for _, name := range []string{"none", "metrics", "metrics and spans that are not sampled", "metrics and spans"} {
		for _, replay := range []bool{false, true} {
			b.Run(map[bool]string{false: "first/", true: "replay/"}[replay]+name, func(b *testing.B) {
				cfg := core.Config{Store: memstore.New(), Routes: core.Routes{"POST /v1/payments": {Recovery: core.Park}}}
				if options := observers[name]; options != nil {
					telemetry, err := otelidem.Observer(options()...)
					require.NoError(b, err)
					cfg.Observer = telemetry
				}
				idem, err := core.New(cfg)
				require.NoError(b, err)
				r := gin.New()
				caller := func(*gin.Context) (authctx.Principal, error) { return authctx.User("shop", 7) }
				r.POST("/v1/payments", ginidem.Bridge(caller), ginidem.Idempotent(idem),
					func(c *gin.Context) { c.Status(http.StatusCreated) })
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					if n++; replay {
						n = 1
					}
					request := httptest.NewRequest(http.MethodPost, "/v1/payments", http.NoBody)
					request.Header.Set("Idempotency-Key", fmt.Sprint("key-", n))
					r.ServeHTTP(httptest.NewRecorder(), request)
				}
			})
		}
	}
}
