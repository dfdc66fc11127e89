package core_test

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// CONTRACT P-1, S-1, M-4, C-2
func TestRendering(t *testing.T) {
	t.Run("apps render problems in their own way", func(t *testing.T) {
		a := newApp(t, core.Config{RenderProblem: func(r *http.Request, p *core.Problem) *core.Reply {
			if p.Code == core.CodeKeyMissing {
				return nil // the library's own way
			}
			require.Equal(t, pattern, r.URL.Path)
			return &core.Reply{Status: p.Status, Header: http.Header{"X-Code": {string(p.Code)}}, Body: []byte("own")}
		}}, created)
		requireProblem(t, a.post("", `{}`), http.StatusBadRequest, core.CodeKeyMissing)
		a.post("k-1", `{}`)
		w := a.post("k-1", `{"other":1}`)
		require.Equal(t, http.StatusConflict, w.Code)
		require.Equal(t, "own", w.Body.String())
		require.Equal(t, "key_reused", w.Header().Get("X-Code"))
		require.Equal(t, "k-1", w.Header().Get("Idempotency-Key"))
		require.Equal(t, "key_reused", w.Header().Get("Idempotency-Problem"), "clients decide by it, however the app renders")
		require.Empty(t, w.Header().Get("Content-Type"))
	})
	// An app that always hands out the same reply must not see it change: with the key of one caller in the answer of the
	// next.
	t.Run("rendered replies are not changed", func(t *testing.T) {
		shared := &core.Reply{Status: http.StatusConflict, Header: http.Header{"X-Own": {"1"}}}
		a := newApp(t, core.Config{RenderProblem: func(*http.Request, *core.Problem) *core.Reply { return shared }}, created)
		var wg sync.WaitGroup
		for i := range 8 {
			key := "k-" + strconv.Itoa(i)
			a.post(key, `{}`)
			wg.Go(func() {
				for range 10 {
					w := a.post(key, `{"other":1}`)
					if got := w.Header().Get("Idempotency-Key"); got != key {
						t.Errorf("the key %q in the answer to %q", got, key)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, &core.Reply{Status: http.StatusConflict, Header: http.Header{"X-Own": {"1"}}}, shared)
		require.Empty(t, a.post("", `{}`).Header().Get("Idempotency-Key"))
	})
	t.Run("a client must learn that the outcome is unknown, in whatever way the app renders problems", func(t *testing.T) {
		a := newApp(t, core.Config{RenderProblem: func(_ *http.Request, p *core.Problem) *core.Reply {
			return &core.Reply{Status: p.Status}
		}}, status(http.StatusBadGateway))
		require.Equal(t, "unknown", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, "unknown", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Empty(t, a.post("", `{}`).Header().Get("Idempotency-Result"))
	})
	t.Run("problem base", func(t *testing.T) {
		for _, base := range []string{"https://shop.example/problems/", "https://shop.example/problems#", "urn:shop:"} {
			var rendered string
			a := newApp(t, core.Config{ProblemBase: base, RenderProblem: func(_ *http.Request, p *core.Problem) *core.Reply {
				rendered = p.Type
				return nil
			}}, created)
			w := a.post("", `{}`)
			requireProblem(t, w, http.StatusBadRequest, core.CodeKeyMissing)
			require.Contains(t, w.Body.String(), `"type":"`+base+`key_missing"`)
			require.Equal(t, base+"key_missing", rendered)
		}
		for base, want := range map[string]string{
			"/problems/": "is not an absolute URI", "problems": "is not an absolute URI", "https:///problems/": "is not an absolute URI",
			"https://shop.example/a b\x7f/": "is not an absolute URI", "https://shop.example/problems": "must end with",
			"https://shop.example/problems?code=/": "neither a user nor a query", "https://u:p@shop.example/": "neither a user nor a query",
		} {
			_, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}, ProblemBase: base})
			require.ErrorContains(t, err, "ProblemBase: ", base)
			require.ErrorContains(t, err, want, base)
		}
	})
}

// allKinds is a module with every kind of route, on a store that can do everything.
func allKinds(t *testing.T) *core.Module {
	t.Helper()
	module := newModule(t, core.Config{Store: newRowsApp(t, core.Config{}, created).store, Routes: core.Routes{
		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}, MaxOpen: 10,
			RefuseRekeyed: true, Unwritten: core.UnwrittenRefused},
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

// The statuses of draft-ietf-httpapi-idempotency-key-header-07, section 2.7, in what is sent and in what is published. Every
// other code has the status that it has without the profile.
//
// CONTRACT P-2
func TestProfileOfTheIETF(t *testing.T) {
	each(t, map[string]core.Config{
		"the policy's address":      {PolicyURL: "https://shop.example/idempotency"},
		"an address of the problem": {ProblemBase: "https://shop.example/idempotency#", PolicyURL: "/idempotency"},
	}, func(t *testing.T, cfg core.Config) {
		const base = "https://shop.example/idempotency#"
		gate, running := make(chan struct{}), make(chan struct{}, 2)
		cfg.Profile, cfg.Routes = core.IETF, core.Routes{"POST " + pattern: {Recovery: core.Park}}
		a := newApp(t, cfg, func(w http.ResponseWriter, _ *http.Request) {
			running <- struct{}{}
			<-gate
			w.WriteHeader(http.StatusCreated)
		})
		first := make(chan int)
		go func() { first <- a.post("k-1", `{"n":1}`).Code }()
		<-running
		w := a.post("k-1", `{"n":1}`)
		requireProblem(t, w, http.StatusConflict, core.CodeInFlight)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), `"type":"`+base+`in_flight"`)
		close(gate)
		require.Equal(t, http.StatusCreated, <-first)

		w = a.post("k-1", `{"n":2}`)
		requireProblem(t, w, http.StatusUnprocessableEntity, core.CodeKeyReused)
		require.Empty(t, w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), `"type":"`+base+`key_reused"`)
		require.Contains(t, w.Body.String(), `"status":422`)
		w = a.post("", `{"n":3}`)
		requireProblem(t, w, http.StatusBadRequest, core.CodeKeyMissing)
		require.Contains(t, w.Body.String(), `"type":"`+base+`key_missing"`)
		require.Equal(t, 1, a.runs)

		d := a.module.Describe()
		require.Equal(t, core.IETF, d.Profile)
		for _, p := range d.Routes[0].Problems {
			want := core.NewProblem(p.Code, "").Status
			if p.Code == core.CodeKeyReused {
				want = http.StatusUnprocessableEntity
			}
			require.Equal(t, want, p.Status, p.Code)
			require.Equal(t, base+string(p.Code), p.Type)
		}
	})
}

// CONTRACT P-2, M-1
func TestProfiles(t *testing.T) {
	t.Run("without the profile the answers are those of the contract", func(t *testing.T) {
		a := newApp(t, core.Config{Routes: core.Routes{"POST " + pattern: {Recovery: core.Park}}}, created)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{"n":1}`).Code)
		requireProblem(t, a.post("k-1", `{"n":2}`), http.StatusConflict, core.CodeKeyReused)
		require.Equal(t, "AUTH-19", a.module.Describe().Profile.String())
		for _, p := range a.module.Describe().Routes[0].Problems {
			require.NotEqual(t, http.StatusUnprocessableEntity, p.Status)
		}
	})
	t.Run("no mix: an unknown profile is refused, and so is the draft's without a link to the documentation", func(t *testing.T) {
		require.Equal(t, "Profile(7)", core.Profile(7).String())
	})
}
