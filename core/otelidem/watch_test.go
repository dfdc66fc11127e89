package otelidem_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/otelidem"
	"github.com/auth19/idem/core/store"
)

// clock is a clock that a test moves.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func openOf(t *testing.T, got map[string]metricdata.Metrics) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	gauge, ok := got["idem.operations.open"].Data.(metricdata.Gauge[int64])
	if !ok {
		return nil
	}
	for _, p := range gauge.DataPoints {
		state, _ := p.Attributes.Value("idem.state")
		route, _ := p.Attributes.Value("http.route")
		require.Equal(t, 2, p.Attributes.Len())
		all[state.AsString()+" "+route.AsString()] = p.Value
	}
	return all
}

// The gauges say what the store has: all guarded routes from the start, and the age of the oldest operation of each state and
// route.
func TestWatch(t *testing.T) {
	var clock clock
	a := newGin(t, core.Config{Store: memstore.New(memstore.WithClock(clock.now)), Now: clock.now})
	stop, err := a.Watch(a.module)
	require.NoError(t, err)
	got := a.collect(t)
	none := map[string]int64{"unknown " + pattern: 0, "unknown /v1/orders": 0, "half_done /v1/orders": 0}
	require.Equal(t, none, openOf(t, got))
	require.NotContains(t, got, "idem.operations.oldest.timestamp")

	begun := clock.now()
	a.handle = status(502)
	a.send(t, "k-1", `{}`)
	a.handle = func(w http.ResponseWriter, r *http.Request) {
		_ = core.CallDo(r.Context(), "order", func(context.Context, core.DerivedKey) error { return errors.New("no answer") })
		w.WriteHeader(502)
	}
	a.send(t, "k-2", `{}`, to("/v1/orders"))
	clock.add(time.Hour)
	a.send(t, "k-3", `{}`)
	got = a.collect(t)
	require.Equal(t, map[string]int64{"unknown " + pattern: 2, "unknown /v1/orders": 0, "half_done /v1/orders": 1}, openOf(t, got))
	oldest := got["idem.operations.oldest.timestamp"].Data.(metricdata.Gauge[float64]).DataPoints
	ages := map[string]float64{}
	for _, p := range oldest {
		state, _ := p.Attributes.Value("idem.state")
		route, _ := p.Attributes.Value("http.route")
		require.Equal(t, 2, p.Attributes.Len())
		ages[state.AsString()+" "+route.AsString()] = p.Value
	}
	require.Len(t, ages, 2)
	require.InDelta(t, float64(begun.UnixMicro())/1e6, ages["unknown "+pattern], 60)
	require.InDelta(t, float64(begun.UnixMicro())/1e6, ages["half_done /v1/orders"], 60)

	id := core.Scoping{}.RecordID(core.Principal{Issuer: "https://secret-issuer.example", Subject: "secret-subject"}, "k-1")
	_, err = operations.New(a.module).Settle(t.Context(), id, core.Decision{Who: "operator", Why: "refused by the provider"})
	require.NoError(t, err)
	got = a.collect(t)
	require.Equal(t, int64(1), openOf(t, got)["unknown "+pattern])
	requireMetric(t, sum(true, counted(1, ofRoute(pattern)), counted(0, ofRoute("/v1/orders"))), got["idem.settled"])
	stop()
	require.Nil(t, openOf(t, a.collect(t)))
}

// ofRoute are the attributes of a counter by route.
func ofRoute(route string) attribute.Set {
	return attribute.NewSet(attribute.String("http.route", route))
}

// silent is a store that does not answer when it is asked how many operations are open.
type silent struct{ *memstore.Store }

func (silent) Count(context.Context, store.Query) ([]store.Count, error) { return nil, errAway }

// A store that does not answer has no gauge; all other metrics are there.
func TestWatchOfAStoreThatIsAway(t *testing.T) {
	a := newGin(t, core.Config{Store: silent{memstore.New()}})
	stop, err := a.Watch(a.module)
	require.NoError(t, err)
	defer stop()
	a.send(t, "k-1", `{}`)
	var all metricdata.ResourceMetrics
	require.ErrorIs(t, a.reader.Collect(t.Context(), &all), errAway)
	var names []string
	for _, m := range all.ScopeMetrics[0].Metrics {
		names = append(names, m.Name)
	}
	require.Contains(t, names, "idem.requests")
	require.NotContains(t, names, "idem.operations.open")
}

func TestProvidersThatAreNil(t *testing.T) {
	_, err := otelidem.Observer(otelidem.WithMeterProvider(nil))
	require.ErrorContains(t, err, "WithMeterProvider")
	_, err = otelidem.Observer(otelidem.WithTracerProvider(nil))
	require.ErrorContains(t, err, "WithTracerProvider")
	_, err = otelidem.Observer() // the global ones
	require.NoError(t, err)
}

// What Run does is counted: sweeps, what they removed, and what the reconciler has settled.
func TestRunIsCounted(t *testing.T) {
	var clock clock
	a := newEcho(t, core.Config{Store: memstore.New(memstore.WithClock(clock.now)), Now: clock.now,
		Reconcile: func(context.Context, core.Record) (*core.Decision, error) {
			return &core.Decision{Who: "reconciler", Why: "the provider has no such payment"}, nil
		}})
	a.send(t, "k-1", `{}`)
	a.handle = status(502)
	a.send(t, "k-2", `{}`)
	clock.add(store.DefaultRetention + time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = a.module.Run(ctx) })
	value := func(name string, of attribute.Set) int64 {
		data, _ := a.collect(t)[name].Data.(metricdata.Sum[int64])
		if len(data.DataPoints) == 0 {
			return 0
		}
		require.Len(t, data.DataPoints, 1, name)
		require.Equal(t, of, data.DataPoints[0].Attributes)
		return data.DataPoints[0].Value
	}
	none, here := *attribute.EmptySet(), ofRoute(pattern)
	require.Eventually(t, func() bool { return value("idem.sweeps", none) > 0 && value("idem.reconciled", here) > 0 },
		time.Minute, time.Millisecond)
	stop()
	run.Wait()
	require.Equal(t, int64(1), value("idem.swept", none))
	require.Equal(t, int64(1), value("idem.reconciled", here))
	require.Equal(t, int64(1), value("idem.settled", here))
	require.Equal(t, int64(0), value("idem.resumed", none))
}
