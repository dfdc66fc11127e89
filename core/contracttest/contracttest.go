// Package contracttest drives a running app over HTTP through the contract, and names the rule in each failure. The
// adapters and the example apps of this library pass it, and so should yours:
//
//	func TestContract(t *testing.T) {
//		contracttest.Run(t, contracttest.App{
//			Handler: router, // or URL, of an app that runs already
//			Tokens:  contracttest.Tokens{Of: func(n int) string { ... }},
//			Routes: []contracttest.Route{{
//				Path: "/v1/payments", Recovery: store.Rollback,
//				Body: func(n int) (string, []byte) {
//					return "application/json", fmt.Appendf(nil, `{"order_id":"o-%d","amount":"1.00"}`, n)
//				},
//				Effects: func(ctx context.Context) (int, error) { ... }, // the payments that were booked
//			}},
//		})
//	}
//
// Each rule at each route is a subtest: "POST /v1/payments/M-1 another command with the same key is refused". A check is
// skipped if [App], [Tokens] or [Route] lacks what it needs, and says what is missing. It does not check what a client
// cannot see: storetest checks the store, and the audits of the adapters check that all routes are guarded.
//
// The suite carries out some hundred commands per route, with new keys in every run. It sends what a hostile or broken
// client would send. Use it only on a database for tests. It does not fail for load: a command that is refused with
// store_unavailable is sent again, and a check is skipped if all of its commands are refused for half a minute.
package contracttest

import (
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Run checks all rules at all routes of app, each as a subtest of t, one after the other. Nothing else may use the app
// at the same time, because effects are counted.
func Run(t *testing.T, app App) {
	t.Helper()
	app = app.withDefaults()
	require.NoError(t, app.validate())
	if app.URL == "" {
		server := httptest.NewServer(app.Handler)
		t.Cleanup(server.Close)
		app.URL = server.URL
	}
	s := newSuite(app)
	t.Cleanup(s.client.CloseIdleConnections)
	for _, r := range app.Routes {
		t.Run(r.name(), func(t *testing.T) {
			for c := range checksOf(r) {
				t.Run(c.name(), func(t *testing.T) { s.run(t, r, c) })
			}
		})
	}
	for _, c := range appChecks {
		t.Run(c.name(), func(t *testing.T) { s.run(t, app.Routes[0], c) })
	}
}

// check is one rule of the contract.
type check struct {
	rule  string // its id
	words string // what it says
	run   func(p *probe)
	when  func(r Route) bool // for some routes only; nil: for all
}

func (c check) name() string { return c.rule + " " + c.words }

// routeChecks run for each route.
var routeChecks = slices.Concat(orderChecks, keyChecks, timedKeyChecks, untouchedChecks, scopeChecks, hashChecks, bodyChecks,
	repeatChecks, outcomeChecks, operationChecks, secretChecks)

// checksOf are those that apply to a route.
func checksOf(r Route) iter.Seq[check] {
	return func(yield func(check) bool) {
		for _, c := range routeChecks {
			if (c.when == nil || c.when(r)) && !yield(c) {
				return
			}
		}
	}
}

// appChecks run once, after all others.
var appChecks = logChecks

// suite is the app under test, and what is known from all checks together.
type suite struct {
	App
	client *http.Client
	secrets
	problemTypes
	commands int           // how many were made
	rounds   int           // of many repeats at once
	patience time.Duration // with a store that is too busy
}

func newSuite(app App) *suite {
	return &suite{
		App:      app,
		rounds:   manyRounds,
		patience: patience,
		client: &http.Client{
			Timeout: patience,
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxIdleConnsPerHost: burst,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (s *suite) run(t tester, r Route, c check) {
	t.Helper()
	c.run(&probe{tester: t, suite: s, Route: r, check: c})
}
