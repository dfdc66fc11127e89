package echoidem_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
)

// lookups counts what is asked of a request's context.
type lookups struct {
	context.Context
	asked map[string]int
}

func (l lookups) Value(key any) any {
	l.asked[fmt.Sprintf("%T", key)]++
	return l.Context.Value(key)
}

// Roles guard, key guard and interceptor in one ask for the principal once.
func TestIdempotentAsksForThePrincipalOnce(t *testing.T) {
	asked := map[string]int{}
	e := echo.New()
	e.Use(echoidem.JWTGuard(newVerifier(t)), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.SetRequest(c.Request().WithContext(lookups{c.Request().Context(), asked}))
			return next(c)
		}
	})
	idem := newModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park, Roles: []string{"customer"}}}})
	e.POST("/v1/pay", func(c echo.Context) error { return c.JSON(http.StatusCreated, 1) }, echoidem.Idempotent(idem))
	a := serve(t, e)
	for range 2 { // the first request, and a replay
		clear(asked)
		require.Equal(t, http.StatusCreated, a.do(call{key: "key-1"}).status)
		require.Equal(t, 1, asked["authctx.contextKey"], asked)
	}
}
