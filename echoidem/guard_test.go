package echoidem_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// Routes of hosts are known too.
func TestHosts(t *testing.T) {
	e := echo.New()
	guards := []echo.MiddlewareFunc{echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(adaptertest.NewModule(t, core.Config{}))}
	a := adaptertest.Serve(t, e)
	host := strings.TrimPrefix(a.URL, "http://")
	e.Host(host, guards...).POST("/v1/pay", func(c echo.Context) error { return c.String(http.StatusCreated, "paid") })
	require.Equal(t, "paid", a.RequireReplay(adaptertest.Call{}).Body)
	adaptertest.RequireProblem(t, http.StatusBadRequest, "key_missing", a.Do(adaptertest.Call{}))
	require.Equal(t, http.StatusNotFound, a.Do(adaptertest.Call{Path: "/v1/nope"}).Status)
	require.Equal(t, http.StatusNotFound, a.Do(adaptertest.Call{Method: http.MethodPut}).Status)
}
