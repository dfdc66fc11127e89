package core_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// allKinds is a module with every kind of route, on a store that can do everything.
func allKinds(t *testing.T) *core.Module {
	t.Helper()
	module := newModule(t, core.Config{Store: newRowsApp(t, core.Config{}, created).store, Routes: core.Routes{
		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}, MaxOpen: 10,
			Rekey: core.RekeyRefuse},
		"POST /v1/payments/:id/refunds": {Recovery: core.Resume, KeyFormat: core.UUIDKey},
		"PUT /v1/payouts/:payout":       {Recovery: core.Park, KeyFormat: core.TimedKey},
		"PATCH /v1/payouts/:id":         {Recovery: core.Park, ShadowUntil: time.Now().Add(time.Hour)},
		"PATCH /v1/profile":             {Exempt: "setting a name twice is setting it once"},
		"GET /v1/payments/:id":          {Roles: []string{"customer"}},
	}})
	return module
}

// CONTRACT P-1
func TestDescriptions(t *testing.T) {
	// Every problem that a guarded route can send is described with the route. What is described with none is sent by no
	// guard.
	t.Run("every problem is described", func(t *testing.T) {
		seen := slices.Clone(unpublished)
		d := allKinds(t).Describe()
		require.Len(t, d.Routes, 4, "no exempt route, no safe one")
		for _, route := range d.Routes {
			for _, problem := range route.Problems {
				require.Equal(t, core.NewProblem(problem.Code, "").Status, problem.Status)
				require.Equal(t, core.NewProblem(problem.Code, "").Title, problem.Title)
				if !slices.Contains(seen, problem.Code) {
					seen = append(seen, problem.Code)
				}
			}
		}
		require.ElementsMatch(t, core.Codes(), seen)
	})
	// Every problem names the address of the policy, in the app's own rendering too. The reply that the app hands out is not
	// changed: it may be the same one each time.
	t.Run("problems name the policy", func(t *testing.T) {
		const want = `</idempotency>; rel="describedby"`
		a := newApp(t, core.Config{PolicyURL: "/idempotency"}, created)
		require.Equal(t, []string{want}, a.post("", "{}").Header().Values("Link"))
		require.Empty(t, a.post("key-1", "{}").Header().Values("Link"))
		require.Equal(t, []string{want}, a.post("key-1", `{"other":1}`).Header().Values("Link"))

		own := &core.Reply{Status: http.StatusTeapot, Header: http.Header{"Link": {`</style>; rel="stylesheet"`}}}
		a = newApp(t, core.Config{PolicyURL: "https://shop.example/i", RenderProblem: func(*http.Request, *core.Problem) *core.Reply {
			return own
		}}, created)
		for range 2 {
			require.Equal(t, []string{`</style>; rel="stylesheet"`, `<https://shop.example/i>; rel="describedby"`},
				a.post("", "{}").Header().Values("Link"))
		}
		require.Empty(t, newApp(t, core.Config{}, created).post("", "{}").Header().Values("Link"))
	})
	t.Run("policy u r l", func(t *testing.T) {
		for _, address := range []string{"idempotency", "//shop.example/idempotency", "ftp://shop.example/", "https:///x", "/a b", "/a>b",
			"https://user:password@shop.example/", "/a\r\nSet-Cookie: a=b", "\x00"} {
			_, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}, PolicyURL: address})
			require.ErrorContains(t, err, "PolicyURL", address)
			require.NotContains(t, err.Error(), "password")
		}
	})
}
