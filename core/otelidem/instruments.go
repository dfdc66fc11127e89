package otelidem

import (
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/auth19/idem/core"
)

// instruments are all but the two gauges, which belong to a module: see Watch.
type instruments struct {
	requests   metric.Int64Counter
	warnings   metric.Int64Counter
	attempt    metric.Float64Histogram
	claim      metric.Float64Histogram
	active     metric.Int64UpDownCounter
	swept      metric.Int64Counter
	sweeps     metric.Int64Counter
	resumed    metric.Int64Counter
	reconciled metric.Int64Counter
	settled    metric.Int64Counter
}

// buckets are those of the semantic conventions for HTTP durations, in seconds.
var buckets = metric.WithExplicitBucketBoundaries(
	0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)

// warnings are the kinds of events that deserve attention. A test compares them with core's.
var warnings = []core.EventKind{
	core.EventLeaseLost, core.EventUnknown, core.EventStale, core.EventUnconfirmed, core.EventNotAppliedRefused,
	core.EventClockSkew, core.EventFailed, core.EventOverdue, core.EventTransactionUnused, core.EventStatementFailed,
	core.EventRouteUnknown, core.EventLongSegment, core.EventAbandoned, core.EventWriteRefused,
	core.EventSuspectedDuplicate,
	core.EventWouldReplay, core.EventWouldRefuse, core.EventShadowed,
}

func (i *instruments) make(m metric.Meter) error {
	var errs []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	seconds := func(name, description string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), buckets)
		errs = append(errs, err)
		return h
	}
	i.requests = counter("idem.requests", "{request}", "Requests to guarded routes, by their result.")
	i.warnings = counter("idem.warnings", "{event}", "Events that deserve attention.")
	i.attempt = seconds("idem.attempt.duration", "From the end of the claim until the attempt's end was recorded.")
	i.claim = seconds("idem.claim.duration", "How long the store took to decide who runs a command.")
	active, err := m.Int64UpDownCounter("idem.attempts.active", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts that this process is running."))
	errs = append(errs, err)
	i.active = active
	i.swept = counter("idem.swept", "{record}", "Records that sweeps have turned into tombstones or removed.")
	i.sweeps = counter("idem.sweeps", "{sweep}", "Sweeps after which nothing that is due was left.")
	i.resumed = counter("idem.resumed", "{operation}", "Resume operations that Run has gone on with.")
	i.reconciled = counter("idem.reconciled", "{operation}", "Unknown operations that the reconciler has settled.")
	i.settled = counter("idem.settled", "{operation}", "Unknown operations that were settled, by whomever.")
	return errors.Join(errs...)
}
