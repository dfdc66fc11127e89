package servers_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/internal/adaptertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// routes is the table of both apps.
var routes = core.Routes{"POST /v1/payments/{account}": {Recovery: core.Park, Roles: []string{"customer"}}}

// payment is the body of a command, and of its answer.
type payment struct {
	ID     string `json:"id,omitempty"`
	Amount string `json:"amount"`
}

// requireGuarded requires of an app that registers its one route on mux: the audit finds nothing wrong, a repeat gets the
// recorded answer, and another command is refused.
func requireGuarded(t *testing.T, register func(mux *httpidem.Router, runs *atomic.Int64)) {
	t.Helper()
	idem := adaptertest.NewModule(t, core.Config{Routes: routes})
	router, runs := httpidem.NewRouter(), new(atomic.Int64)
	register(router.Group("", httpidem.JWTGuard(adaptertest.NewVerifier(t)), httpidem.Idempotent(idem)), runs)
	require.NoError(t, httpidem.Audit(router, idem))

	client := adaptertest.Serve(t, router)
	pay := adaptertest.Call{Path: "/v1/payments/a-1", Key: "key-1", Body: `{"amount":"1.00"}`,
		Headers: map[string]string{"Content-Type": "application/json"}}
	got := client.RequireReplay(pay)
	require.Equal(t, http.StatusCreated, got.Status, got.Body)
	require.JSONEq(t, `{"id":"a-1","amount":"1.00"}`, got.Body)
	pay.Body = `{"amount":"2.00"}`
	adaptertest.RequireProblem(t, http.StatusConflict, "key_reused", client.Do(pay))
	pay.Key = ""
	adaptertest.RequireProblem(t, http.StatusBadRequest, "key_missing", client.Do(pay))
	require.EqualValues(t, 1, runs.Load())
	pay.Key, pay.Body = "key-2", `{"amount":7}`
	refused := client.RequireReplay(pay) // by the framework, which validates behind the guards
	require.GreaterOrEqual(t, refused.Status, 400)
	require.EqualValues(t, 1, runs.Load())
}
