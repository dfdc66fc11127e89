package echoidem_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/echoidem"
)

// A method that nobody has heard of is not safe, nor is a safe one in lower case: it needs a key, or its route is refused.
//
// CONTRACT K-8, O-4
func TestCustomMethods(t *testing.T) {
	methods := []string{"PURGE", "LINK", "PROPFIND", "CONNECTED", "post", "Post", "get", "head", "options"}
	undeclared, err := core.New(core.Config{Store: memstore.New(), Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}})
	require.NoError(t, err)
	e := echo.New()
	guard := echoidem.JWTGuard(newVerifier(t))
	guarded, table := e.Group("/v1", guard, echoidem.Idempotent(newModule(t, core.Config{}))), e.Group("/table", guard, echoidem.Idempotent(undeclared))
	only := e.Group("/only", guard, echoidem.Idempotent(newModule(t, core.Config{})))
	pay := func(c echo.Context) error { return c.String(http.StatusCreated, c.Request().Method) }
	only.POST("/pay", pay)
	for _, method := range methods {
		guarded.Add(method, "/pay", pay)
		table.Add(method, "/pay", pay)
	}
	a := serve(t, e)
	for _, method := range methods {
		requireProblem(t, http.StatusBadRequest, "key_missing", a.do(call{method: method}))
		require.Equal(t, method, a.requireReplay(call{method: method, key: method}).body)
		requireProblem(t, http.StatusConflict, "key_reused", a.do(call{method: "LINK", key: method, path: "/v1/pay", body: "x"}))
		requireProblem(t, http.StatusInternalServerError, "route_undeclared", a.do(call{method: method, path: "/table/pay", key: method}))
		got := a.do(call{method: method, path: "/only/pay"}) // the router knows no such route
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, got.status, method)
	}
}
