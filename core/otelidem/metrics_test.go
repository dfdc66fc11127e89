package otelidem_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// series are the attributes of a series of the route pattern.
func series(recovery, result string, more ...attribute.KeyValue) attribute.Set {
	all := append([]attribute.KeyValue{attribute.String("http.route", pattern), attribute.String("http.request.method", "POST")}, more...)
	if recovery != "" {
		all = append(all, attribute.String("idem.recovery", recovery))
	}
	if result != "" {
		all = append(all, attribute.String("idem.result", result))
	}
	return attribute.NewSet(all...)
}

func counted(n int64, set attribute.Set) metricdata.DataPoint[int64] {
	return metricdata.DataPoint[int64]{Attributes: set, Value: n}
}

func sum(monotonic bool, points ...metricdata.DataPoint[int64]) metricdata.Aggregation {
	return metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: monotonic, DataPoints: points}
}

func requireMetric(t *testing.T, want metricdata.Aggregation, got metricdata.Metrics) {
	t.Helper()
	metricdatatest.AssertAggregationsEqual(t, want, got.Data, metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars(),
		metricdatatest.IgnoreValue())
	if points, ok := want.(metricdata.Sum[int64]); ok {
		metricdatatest.AssertAggregationsEqual(t, points, got.Data, metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
	}
}

// flaky is a store that can be away.
type flaky struct {
	store.Operations
	away map[string]bool
}

var errAway = errors.New("the store is away")

func (s *flaky) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if s.away["claim"] {
		return store.Claimed{}, errAway
	}
	return s.Operations.Claim(ctx, c)
}

// Each request to a guarded route is counted once, by what has become of it, and so is each attempt.
func TestRequests(t *testing.T) {
	for name, newApp := range frameworks {
		t.Run(name, func(t *testing.T) {
			store := &flaky{Operations: memstore.New(), away: map[string]bool{}}
			a := newApp(t, core.Config{Store: store, Routes: core.Routes{"POST " + pattern: routes["POST "+pattern]}})
			require.Equal(t, 201, a.send(t, "k-1", `{}`).Code)
			require.Equal(t, 201, a.send(t, "k-1", `{}`).Code)
			require.Equal(t, 201, a.send(t, "k-1", `{}`).Code)
			require.Equal(t, 409, a.send(t, "k-1", `{"other":1}`).Code)
			require.Equal(t, 401, a.send(t, "k-1", `{}`, header("Authorization", "Bearer x")).Code)
			require.Equal(t, 403, a.send(t, "k-1", `{}`, header("Authorization", "Bearer "+token(t, "clerk"))).Code)
			require.Equal(t, 400, a.send(t, "", `{}`).Code)
			a.handle = status(502)
			require.Equal(t, 502, a.send(t, "k-2", `{}`).Code)
			require.Equal(t, 409, a.send(t, "k-2", `{}`).Code)
			a.handle = func(w http.ResponseWriter, r *http.Request) { core.NotApplied(r.Context()); w.WriteHeader(403) }
			require.Equal(t, 403, a.send(t, "k-3", `{}`).Code)
			a.handle = func(http.ResponseWriter, *http.Request) { panic("a handler panics") }
			require.Equal(t, 500, a.send(t, "k-4", `{}`).Code)
			a.handle = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "9")
				w.WriteHeader(201)
			}
			require.Equal(t, 500, a.send(t, "k-5", `{}`).Code)
			store.away["claim"] = true
			require.Equal(t, 503, a.send(t, "k-6", `{}`).Code)
			require.Equal(t, 500, a.send(t, "k-7", `{}`, to("/v1/undeclared")).Code)

			got := a.collect(t)
			requireMetric(t, sum(true,
				counted(1, series("park", "created")), counted(2, series("park", "reused")), counted(1, series("park", "key_reused")),
				counted(1, series("", "unauthenticated")), counted(1, series("park", "forbidden")), counted(1, series("park", "key_missing")),
				counted(2, series("park", "unknown")), counted(1, series("park", "outcome_unknown")), counted(1, series("park", "freed")),
				counted(1, series("park", "answer_incomplete")), counted(1, series("park", "store_unavailable")),
				counted(1, attribute.NewSet(attribute.String("http.request.method", "POST"), attribute.String("idem.result", "route_undeclared"))),
			), got["idem.requests"])
			requireMetric(t, sum(false, counted(0, series("park", ""))), got["idem.attempts.active"])
			attempts := map[string]uint64{}
			for _, p := range got["idem.attempt.duration"].Data.(metricdata.Histogram[float64]).DataPoints {
				result, _ := p.Attributes.Value("idem.result")
				attempts[result.AsString()] = p.Count
				require.Equal(t, series("park", result.AsString()), p.Attributes)
			}
			require.Equal(t, map[string]uint64{"created": 1, "unknown": 3, "freed": 1}, attempts)
			claims := got["idem.claim.duration"].Data.(metricdata.Histogram[float64]).DataPoints
			require.Len(t, claims, 1)
			require.Equal(t, series("park", ""), claims[0].Attributes)
			require.EqualValues(t, 10, claims[0].Count, "not those that were refused before the claim")
			require.Equal(t, []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}, claims[0].Bounds)
			require.Equal(t, int64(3), warned(got)["unknown"])
			require.Equal(t, int64(1), warned(got)["failed"])
		})
	}
}

// A late attempt that gets what was settled meanwhile is one request, also where another observer hides that Telemetry is a
// core.Tracer.
func TestALateAttemptIsOneRequest(t *testing.T) {
	for name, newApp := range frameworks {
		t.Run(name, func(t *testing.T) {
			var a *app
			var ahead atomic.Int64
			clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			a = newApp(t, core.Config{Store: memstore.New(memstore.WithClock(clock)), Now: clock,
				Observer: core.ObserverFunc(func(ctx context.Context, e core.Event) { a.Observe(ctx, e) })})
			a.handle = func(w http.ResponseWriter, r *http.Request) {
				ahead.Add(int64(time.Hour))
				id, _ := core.Operation(r.Context())
				_, err := operations.New(a.module).Settle(r.Context(), id, core.Decision{Applied: true, Answer: &core.Answer{Status: 202}, Who: "op", Why: "paid"})
				require.NoError(t, err)
				w.WriteHeader(201)
			}
			require.Equal(t, 202, a.send(t, "k-1", `{}`).Code)
			require.Equal(t, 202, a.send(t, "k-1", `{}`).Code)
			got := a.collect(t)
			requireMetric(t, sum(true, counted(1, series("park", "stale")), counted(1, series("park", "reused"))), got["idem.requests"])
			require.EqualValues(t, 1, warned(got)["stale"])
		})
	}
}

// warned are the warnings by their kind.
func warned(got map[string]metricdata.Metrics) map[string]int64 {
	all := map[string]int64{}
	for _, p := range got["idem.warnings"].Data.(metricdata.Sum[int64]).DataPoints {
		kind, _ := p.Attributes.Value("idem.kind")
		all[kind.AsString()] = p.Value
	}
	return all
}

// Every kind that deserves attention has its series from the start, with 0, and no other kind has one.
func TestWarningsAreThereFromTheStart(t *testing.T) {
	got := warned(newTelemetry(t).collect(t))
	for kind, n := range got {
		require.Zero(t, n)
		require.True(t, core.EventKind(kind).IsWarning(), kind)
	}
	require.Len(t, got, warningsOfCore(t))
}

// While a handler works, its attempt is active.
func TestActiveAttempts(t *testing.T) {
	for name, newApp := range frameworks {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{})
			a.handle = func(w http.ResponseWriter, _ *http.Request) {
				requireMetric(t, sum(false, counted(1, series("park", ""))), a.collect(t)["idem.attempts.active"])
				w.WriteHeader(201)
			}
			require.Equal(t, 201, a.send(t, "k-1", `{}`).Code)
			requireMetric(t, sum(false, counted(0, series("park", ""))), a.collect(t)["idem.attempts.active"])
		})
	}
}
