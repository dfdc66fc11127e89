package core_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// The statuses of draft-ietf-httpapi-idempotency-key-header-07, section 2.7, in what is sent and in what is published. Every
// other code has the status that it has without the profile.
//
// CONTRACT P-2
func TestProfileOfTheIETF(t *testing.T) {
	for name, cfg := range map[string]core.Config{
		"the policy's address":      {PolicyURL: "https://shop.example/idempotency"},
		"an address of the problem": {ProblemBase: "https://shop.example/idempotency#", PolicyURL: "/idempotency"},
	} {
		t.Run(name, func(t *testing.T) {
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
}

// Without the profile the answers are those of the contract.
//
// CONTRACT P-2, M-1
func TestProfileByDefault(t *testing.T) {
	a := newApp(t, core.Config{Routes: core.Routes{"POST " + pattern: {Recovery: core.Park}}}, created)
	require.Equal(t, http.StatusCreated, a.post("k-1", `{"n":1}`).Code)
	requireProblem(t, a.post("k-1", `{"n":2}`), http.StatusConflict, core.CodeKeyReused)
	require.Equal(t, "AUTH-19", a.module.Describe().Profile.String())
	for _, p := range a.module.Describe().Routes[0].Problems {
		require.NotEqual(t, http.StatusUnprocessableEntity, p.Status)
	}
}

// No mix: an unknown profile is refused, and so is the draft's without a link to the documentation.
//
// CONTRACT P-2
func TestProfileIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  core.Config
		want string
	}{
		"unknown":        {core.Config{Profile: 2}, "Profile: 2 is no profile; use core.AUTH19, the default, or core.IETF"},
		"no address":     {core.Config{Profile: core.IETF}, "Profile: IETF asks for a link"},
		"a name":         {core.Config{Profile: core.IETF, ProblemBase: "urn:shop:"}, "Profile: IETF asks for a link"},
		"a path":         {core.Config{Profile: core.IETF, PolicyURL: "/idempotency"}, "Profile: IETF asks for a link"},
		"a query":        {core.Config{Profile: core.IETF, PolicyURL: "https://shop.example/?p=1"}, "Profile: IETF asks for a link"},
		"a fragment":     {core.Config{Profile: core.IETF, PolicyURL: "https://shop.example/#p"}, "Profile: IETF asks for a link"},
		"no host at all": {core.Config{Profile: core.IETF, ProblemBase: "https:shop/"}, "is not an absolute URI"},
	} {
		c.cfg.Store, c.cfg.Policy = memstore.New(), core.Policy{Recovery: core.Park}
		_, err := core.New(c.cfg)
		require.ErrorContains(t, err, c.want, name)
	}
	require.Equal(t, "Profile(7)", core.Profile(7).String())
}
