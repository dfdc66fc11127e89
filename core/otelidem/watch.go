package otelidem

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// Watch adds the gauges of the operations that need somebody: each collection of the metrics asks the module's store once,
// with [core.Module.Backlog]. Call it once for a module. stop ends it; the store may be closed after that.
//
// An error is what the provider says of the gauges.
func (t *Telemetry) Watch(m *core.Module) (stop func(), err error) {
	open, err := t.meter.Int64ObservableGauge("idem.operations.open", metric.WithUnit("{operation}"),
		metric.WithDescription("Operations that need somebody, as far as sweeps have seen them."))
	if err != nil {
		return nil, fmt.Errorf("idem: otelidem.Watch: %w", err)
	}
	oldest, err := t.meter.Float64ObservableGauge("idem.operations.oldest.timestamp", metric.WithUnit("s"),
		metric.WithDescription("When the oldest of these operations was claimed, not since when it needs somebody; since 1970."))
	if err != nil {
		return nil, fmt.Errorf("idem: otelidem.Watch: %w", err)
	}
	none := nothingOpen(m.Declared())
	for at := range none { // a counter that is not there before its first event hides that event from rate()
		if at.state == unknown {
			t.instruments.reconciled.Add(context.Background(), 0, t.sets.of(labels{route: at.route}).add...)
			t.instruments.settled.Add(context.Background(), 0, t.sets.of(labels{route: at.route}).add...)
		}
	}
	registered, err := t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		backlog, err := m.Backlog(ctx)
		if err != nil {
			return fmt.Errorf("idem: the gauges of open operations: %w", err)
		}
		observeBacklog(o, open, oldest, none, backlog)
		return nil
	}, open, oldest)
	if err != nil {
		return nil, fmt.Errorf("idem: otelidem.Watch: %w", err)
	}
	return func() {
		if err := registered.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// series is where operations wait.
type series struct{ state, route string }

// nothingOpen are the series that are always there: those of the guarded routes.
func nothingOpen(declared []core.DeclaredRoute) map[series]int {
	none := map[series]int{}
	for _, d := range declared {
		switch {
		case d.Policy.Recovery == store.Resume:
			none[series{halfDone, d.Pattern}] = 0
			fallthrough
		case d.Guarded():
			none[series{unknown, d.Pattern}] = 0
		}
	}
	return none
}

func observeBacklog(o metric.Observer, open metric.Int64Observable, oldest metric.Float64Observable, none map[series]int,
	backlog []store.Count,
) {
	count, since := map[series]int{}, map[series]time.Time{}
	for at := range none {
		count[at] = 0
	}
	for _, b := range backlog {
		state := unknown
		if b.HalfDone {
			state = halfDone
		}
		at := series{state, b.Route} // of all methods
		count[at] += b.Count
		if first, ok := since[at]; !ok || b.Oldest.Before(first) {
			since[at] = b.Oldest
		}
	}
	for at, n := range count {
		o.ObserveInt64(open, int64(n), metric.WithAttributes(stateKey.String(at.state), routeKey.String(at.route)))
	}
	for at, first := range since {
		o.ObserveFloat64(oldest, float64(first.UnixMicro())/1e6,
			metric.WithAttributes(stateKey.String(at.state), routeKey.String(at.route)))
	}
}
