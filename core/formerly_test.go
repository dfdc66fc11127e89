package core_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// The next release has renamed the route's pattern, or another service is on the same store.
//
// CONTRACT X-10
func TestOperationsOfAnUnknownRoute(t *testing.T) {
	release := func(t *testing.T, st core.Store, resumed *list[core.ID], pattern string, policy core.Policy) *app {
		policy.Recovery = core.Resume
		return newApp(t, core.Config{Store: st, Routes: core.Routes{"POST " + pattern: policy},
			Resume: map[string]core.Resumer{"POST " + pattern: func(_ context.Context, r core.Record) (*core.Answer, error) {
				resumed.add(r.ID)
				return nil, errProvider
			}}}, nil)
	}
	inBubble(t, "are neither resumed nor given up: each route is an event once an hour", func(t *testing.T) {
		st := memstore.New()
		old := halfDoneApp(t, st, core.Policy{}, nil)
		old.post("k-2", `{}`)
		var resumed list[core.ID]
		other := release(t, st, &resumed, "/v1/payments/:payment", core.Policy{MaxAttempts: 1})
		time.Sleep(store.DefaultDeadline)
		other.runFor(3*time.Hour + 30*time.Minute)
		events := other.of(core.EventRouteUnknown)
		require.Len(t, events, 4)
		require.Equal(t, "POST "+pattern, events[0].Method+" "+events[0].Route)
		require.Equal(t, 2, events[0].Count)
		require.True(t, events[0].Kind.IsWarning())
		other.runFor(30 * 24 * time.Hour)
		require.Empty(t, resumed.all())
		require.Empty(t, other.of(core.EventUnknown))
		require.Equal(t, store.Running, find(t, st, "k-1").Stored)

		old.runFor(time.Hour) // it knows the route, and its time is over
		require.Len(t, old.of(core.EventUnknown), 2)
		require.Empty(t, old.of(core.EventRouteUnknown))
	})
	inBubble(t, "are not given to the reconciler: it may be another service's", func(t *testing.T) {
		st := memstore.New()
		newApp(t, core.Config{Store: st}, status(http.StatusBadGateway)).post("k-1", `{}`)
		time.Sleep(store.DefaultDeadline)
		second := func(formerly ...string) *app {
			return newApp(t, core.Config{Store: st, Routes: core.Routes{"POST /v2/payouts": {Recovery: core.Park, Formerly: formerly}},
				Reconcile: func(context.Context, core.Record) (*core.Decision, error) {
					return &core.Decision{Who: "the other service", Why: "our provider does not know it"}, nil
				}}, nil)
		}
		other := second()
		other.runFor(2 * time.Hour)
		require.Equal(t, store.Unknown, find(t, st, "k-1").State())
		require.NotEmpty(t, other.of(core.EventRouteUnknown))
		require.Equal(t, core.Park, other.of(core.EventRouteUnknown)[0].Recovery)
		second(pattern).runFor(time.Minute)
		require.Equal(t, store.Free, find(t, st, "k-1").State(), "it is this service's own")
	})
	inBubble(t, "a route that names its former pattern goes on with them, by its own policy", func(t *testing.T) {
		const days = 7 * 24 * time.Hour
		st := memstore.New()
		halfDoneApp(t, st, core.Policy{ResumeFor: days, MaxAttempts: 1000}, nil)
		var resumed list[core.ID]
		next := release(t, st, &resumed, "/v1/payments/:payment", core.Policy{ResumeFor: days, MaxAttempts: 1000,
			Formerly: []string{"/v1/refunds", pattern}})
		next.runFor(days - time.Hour)
		require.NotEmpty(t, resumed.all())
		require.Equal(t, store.Running, find(t, st, "k-1").Stored, "not given up by the default of 24 h")
		next.runFor(6 * time.Hour)
		require.Len(t, next.of(core.EventUnknown), 1)
		require.Empty(t, next.of(core.EventRouteUnknown))
		require.Equal(t, pattern, find(t, st, "k-1").Route)
	})
}

// CONTRACT X-10, O-4
func TestFormerPatterns(t *testing.T) {
	resume := func(formerly ...string) core.Policy { return core.Policy{Recovery: core.Resume, Formerly: formerly} }
	for name, test := range map[string]struct {
		cfg  core.Config
		want string
	}{
		"a pattern of another route": {core.Config{Routes: core.Routes{"POST /a": resume("/b"), "POST /b": resume()}},
			`Routes["POST /a"]: Formerly: "/b" is the pattern of a route of this table`},
		"its own pattern": {core.Config{Routes: core.Routes{"POST /a": resume("/a")}},
			`Routes["POST /a"]: Formerly: "/a" is the pattern of a route of this table`},
		"of two routes": {core.Config{Routes: core.Routes{"POST /a": resume("/c"), "POST /b": resume("/c")}},
			`Formerly: "POST /c" is named twice; it was one route`},
		"twice": {core.Config{Routes: core.Routes{"POST /a": resume("/c", "/c")}}, `Formerly: "POST /c" is named twice`},
		"no pattern": {core.Config{Routes: core.Routes{"POST /a": resume("POST /c")}},
			`Routes["POST /a"]: Formerly: "POST /c" is no pattern; want "/pattern", without the method`},
		"an exempt route": {core.Config{Routes: core.Routes{"POST /a": {Exempt: "moves no money", Formerly: []string{"/c"}}}},
			`Routes["POST /a"]: Formerly: only a guarded route has operations`},
		"a safe route": {core.Config{Routes: core.Routes{"GET /a": {Formerly: []string{"/c"}}}}, "Formerly: only a guarded route"},
		"all routes": {core.Config{Policy: core.Policy{Formerly: []string{"/c"}}, Routes: core.Routes{"POST /a": resume()}},
			"Formerly"},
		"without a table": {core.Config{Policy: resume("/c")}, "Policy.Formerly: without Routes every pattern has this policy"},
	} {
		t.Run(name, func(t *testing.T) {
			test.cfg.Store = memstore.New()
			_, err := core.New(test.cfg)
			require.ErrorContains(t, err, test.want)
		})
	}
	t.Run("the same pattern under another method is another route", func(t *testing.T) {
		module := newModule(t, core.Config{Store: memstore.New(), Routes: core.Routes{
			"POST /a": resume("/c", "/d"), "PUT /a": resume("/c"), "PUT /d": resume()}})
		for _, known := range []string{"POST /a", "POST /c", "PUT /c", "PUT /d"} {
			method, pattern, _ := strings.Cut(known, " ")
			require.True(t, module.KnowsRoute(method, pattern), known)
		}
		require.False(t, module.KnowsRoute("PATCH", "/c"))
	})
}
