package echoidem_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/adaptertest"
)

// Handlers and inner middleware may replace request and writer, and leave them so.
//
// CONTRACT X-12
func TestReplacedRequestAndWriter(t *testing.T) {
	type own struct{}
	for name, inner := range map[string]func(c echo.Context, next echo.HandlerFunc) error{
		"request": func(c echo.Context, next echo.HandlerFunc) error {
			c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), own{}, 1)))
			return next(c)
		},
		"writer": func(c echo.Context, next echo.HandlerFunc) error {
			c.Response().Writer = struct{ http.ResponseWriter }{c.Response().Writer}
			return next(c)
		},
		"response": func(c echo.Context, next echo.HandlerFunc) error {
			c.SetResponse(echo.NewResponse(c.Response(), c.Echo()))
			return next(c)
		},
		"buffer": func(c echo.Context, next echo.HandlerFunc) error {
			b := &buffer{ResponseWriter: c.Response().Writer, header: http.Header{}}
			c.Response().Writer = b
			err := next(c)
			b.ResponseWriter.WriteHeader(http.StatusCreated)
			_, _ = b.ResponseWriter.Write(b.body.Bytes())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := echo.New()
			guarded(t, e, core.Config{}).POST("/pay", func(c echo.Context) error {
				return inner(c, func(c echo.Context) error { return c.String(http.StatusCreated, "paid") })
			})
			got := adaptertest.Serve(t, e).RequireReplay(adaptertest.Call{})
			require.Equal(t, http.StatusCreated, got.Status)
			require.Equal(t, "paid", got.Body)
		})
	}
}
