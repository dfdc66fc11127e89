package echoidem_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem/v5"
	"github.com/auth19/idem/internal/adaptertest"
)

// What Audit did not see being added is unproven, and it says what to do.
func TestAuditUnobserved(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	guards := []echo.MiddlewareFunc{echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem)}
	never := func(*echo.Context) error { return nil }
	const unproven = "POST /early: is unproven: it was added before echoidem.TrackRoutes; call that before the first route"

	e := echo.New()
	e.POST("/early", never, guards...)
	require.ErrorContains(t, echoidem.Audit(e, idem), unproven)
	echoidem.TrackRoutes(e)
	e.POST("/late", never, guards...)
	err := echoidem.Audit(e, idem)
	require.ErrorContains(t, err, unproven)
	require.NotContains(t, err.Error(), "/late")

	// A hook that takes the place of TrackRoutes's is never called by the audit.
	hooked := 0
	e = echo.New()
	echoidem.TrackRoutes(e)
	e.OnAddRoute = func(echo.Route) error { hooked++; return nil }
	e.POST("/early", never, guards...)
	require.ErrorContains(t, echoidem.Audit(e, idem), unproven)
	require.Equal(t, 1, hooked)

	// One that was there before gets every route, and is not called by the audit either.
	echoidem.TrackRoutes(e)
	echoidem.TrackRoutes(e) // the second does nothing
	e.POST("/late", never, guards...)
	echoidem.TrackRoutes(e) // nor the third
	require.Equal(t, 2, hooked)
	err = echoidem.Audit(e, idem)
	require.ErrorContains(t, err, unproven)
	require.NotContains(t, err.Error(), "/late")
	require.Equal(t, 2, hooked)

	// If it refuses a route, there is none.
	e = echo.New()
	e.OnAddRoute = func(echo.Route) error { return errors.New("no") }
	echoidem.TrackRoutes(e)
	_, err = e.AddRoute(echo.Route{Method: http.MethodPost, Path: "/pay", Handler: never})
	require.EqualError(t, err, "no")
	require.NoError(t, echoidem.Audit(e, idem))
}
