package echoidem_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/echoidem"
)

// CONTRACT M-4, M-7, M-8, X-7
func TestOperations(t *testing.T) {
	var ahead atomic.Int64 // nanoseconds
	store := memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
	idem := newModule(t, core.Config{Store: store, OperatorRoles: []string{"operator"}, Routes: core.Routes{
		"POST /v1/pay":                   {Recovery: core.Park},
		"POST /v1/operations/:id/settle": {Recovery: core.Park, Roles: []string{"operator"}},
	}})
	var runs atomic.Int64
	e := echo.New()
	echoidem.TrackRoutes(e)
	v1 := e.Group("/v1", echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(idem))
	v1.POST("/pay", func(echo.Context) error { runs.Add(1); return errors.New("after the charge") })
	v1.GET("/operations", echoidem.OperationsHandler(idem))
	v1.GET("/operation", echoidem.OwnOperationHandler(idem))
	v1.GET("/operations/:id", echoidem.OperationHandler(idem))
	v1.POST("/operations/:id/settle", echoidem.SettleHandler(idem))
	require.NoError(t, echoidem.Audit(e, idem))
	a := serve(t, e)
	operator := sign(t, claimsOf("operator-1", "operator"))

	require.Equal(t, "unknown", a.do(call{key: "key-1"}).header.Get("Idempotency-Result"))
	refused := a.do(call{key: "key-1"})
	requireProblem(t, http.StatusConflict, "outcome_unknown", refused)
	require.Contains(t, refused.body, `"safe_new_key":false`)
	var problem struct{ Operation string }
	require.NoError(t, json.Unmarshal([]byte(refused.body), &problem))

	ask := call{method: http.MethodGet, path: "/v1/operations/" + problem.Operation}
	require.Contains(t, a.do(ask).body, `"state":"unknown"`)
	ask.token = sign(t, claimsOf("customer-2"))
	requireProblem(t, http.StatusNotFound, "operation_not_found", a.do(ask))
	ask.token = operator
	require.Contains(t, a.do(ask).body, `"state":"unknown"`)

	own := call{method: http.MethodGet, path: "/v1/operation", key: "key-1"}
	require.Contains(t, a.do(own).body, problem.Operation)
	own.key = "key-2"
	requireProblem(t, http.StatusNotFound, "operation_not_found", a.do(own))

	list := call{method: http.MethodGet, path: "/v1/operations?state=unknown"}
	requireProblem(t, http.StatusForbidden, "forbidden", a.do(list))
	list.token = operator
	require.Contains(t, a.do(list).body, problem.Operation)

	settle := call{path: "/v1/operations/" + problem.Operation + "/settle", key: "settle-1",
		body: `{"outcome":"applied","answer":{"id":"pay-1"},"reason":"seen at the provider"}`}
	requireProblem(t, http.StatusForbidden, "forbidden", a.do(settle))
	settle.token = operator
	requireProblem(t, http.StatusConflict, "not_settleable", a.do(settle)) // its deadline has not passed
	ahead.Store(int64(2 * time.Minute))
	settle.key = "settle-2"
	require.Contains(t, a.requireReplay(settle).body, `"state":"completed"`)
	settle.key = "settle-3"
	requireProblem(t, http.StatusConflict, "not_settleable", a.do(settle))

	again := a.do(call{key: "key-1"})
	require.Equal(t, http.StatusCreated, again.status)
	require.JSONEq(t, `{"id":"pay-1"}`, again.body)
	require.EqualValues(t, 1, runs.Load())
}
