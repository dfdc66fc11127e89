package echoidem_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
)

func TestFirst(t *testing.T) {
	var runs atomic.Int64
	e := echo.New()
	v1 := e.Group("/v1", echoidem.JWTGuard(newVerifier(t)), echoidem.Money(newModule(t, core.Config{})))
	v1.POST("/pay", func(c echo.Context) error { return c.JSON(http.StatusCreated, echo.Map{"run": runs.Add(1)}) })
	v1.POST("/declined", func(c echo.Context) error { return echo.NewHTTPError(402, "declined") })
	a := serve(t, e)
	first := a.requireReplay(call{})
	require.Equal(t, http.StatusCreated, first.status)
	require.Equal(t, 402, a.requireReplay(call{path: "/v1/declined", key: "k2"}).status)
	requireProblem(t, 400, "key_missing", a.do(call{}))
	requireProblem(t, 401, "unauthenticated", a.do(call{token: "-", key: "k"}))
	require.Equal(t, 404, a.do(call{path: "/v1/nope"}).status)
}
