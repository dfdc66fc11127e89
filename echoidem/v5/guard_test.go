package echoidem_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem/v5"
	"github.com/auth19/idem/internal/adaptertest"
)

// A router that answers HEAD by routes of GET lets it pass without a key, too.
//
// CONTRACT K-8
func TestAutomaticHead(t *testing.T) {
	e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})})
	guarded := e.Group("/v1", echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(adaptertest.NewModule(t, core.Config{})))
	guarded.GET("/pay", func(c *echo.Context) error { return c.NoContent(http.StatusAccepted) })
	require.Equal(t, http.StatusAccepted, adaptertest.Serve(t, e).Do(adaptertest.Call{Method: http.MethodHead}).Status)
}
