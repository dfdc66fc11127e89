package otelidem

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/auth19/idem/core"
)

// scope is the name of the instrumentation.
const scope = "github.com/auth19/idem/core/otelidem"

// Telemetry is a [core.Tracer]. Make it Config.Observer of a module, alone or with others by [core.Observers]; inside any
// other observer it makes no spans. Its methods may be called from several goroutines at once.
type Telemetry struct {
	tracer      trace.Tracer
	meter       metric.Meter
	instruments instruments
	sets        sets
}

var _ core.Tracer = (*Telemetry)(nil)

// Option changes a default of [Observer].
type Option func(*options)

type options struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
}

// WithMeterProvider sets where the metrics go; by default the global provider, [otel.GetMeterProvider].
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// WithTracerProvider sets where the spans go; by default the global provider, [otel.GetTracerProvider].
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.tracers = p } }

// Observer returns an observer that counts, measures and traces. The error names an option that is nil, or an instrument
// that the provider refuses.
func Observer(opts ...Option) (*Telemetry, error) {
	o := options{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, opt := range opts {
		opt(&o)
	}
	switch {
	case o.meters == nil:
		return nil, errors.New("idem: otelidem.Observer: WithMeterProvider: nil; leave the option out for the global provider")
	case o.tracers == nil:
		return nil, errors.New("idem: otelidem.Observer: WithTracerProvider: nil; leave the option out for the global provider")
	}
	t := &Telemetry{tracer: o.tracers.Tracer(scope), meter: o.meters.Meter(scope)}
	if err := t.instruments.make(t.meter); err != nil {
		return nil, fmt.Errorf("idem: otelidem.Observer: %w", err)
	}
	for _, kind := range warnings { // a counter that is not there before its first event hides that event from rate()
		t.instruments.warnings.Add(context.Background(), 0, t.sets.kind(kind).add...)
	}
	for _, counter := range []metric.Int64Counter{t.instruments.swept, t.instruments.sweeps, t.instruments.resumed} {
		counter.Add(context.Background(), 0)
	}
	return t, nil
}
