package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/auth19/idem/core/otelidem"
)

// metrics are the metrics of this process, for Prometheus.
type metrics struct {
	registry  *prometheus.Registry
	telemetry *otelidem.Telemetry
}

func newMetrics() (metrics, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return metrics{}, err
	}
	telemetry, err := otelidem.Observer(otelidem.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	return metrics{registry, telemetry}, err
}

// serve answers GET /metrics on METRICS_ADDR, default 127.0.0.1:9464. It is not the port of the customers: routes and
// their traffic are none of their business. end stops it.
func (m metrics) serve(ctx context.Context) (end func(), err error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", cmp.Or(os.Getenv("METRICS_ADDR"), "127.0.0.1:9464"))
	if err != nil {
		return nil, fmt.Errorf("METRICS_ADDR: %w", err)
	}
	fmt.Printf("metrics: http://%v/metrics\n", listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) }) // ends with Close
	return func() {
		_ = server.Close()
		running.Wait()
	}, nil
}
