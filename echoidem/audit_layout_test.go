package echoidem

import (
	"reflect"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/adapter"
	"github.com/auth19/idem/core/memstore"
)

// Audit reads what Echo does not export. Another layout, of another version, makes routes unproven and nothing else.
func TestLayout(t *testing.T) {
	e := echo.New()
	TrackRoutes(e)
	guard := JWTGuard(nil)
	e.Use(guard)
	e.POST("/a", func(echo.Context) error { return nil })
	codes, ok := globalChain(reflect.ValueOf(e))
	require.True(t, ok, "Echo's layout has changed: Audit has to learn the new one")
	require.Equal(t, []uintptr{adapter.CodeOf(guard)}, codes)

	for _, other := range []any{
		&struct{}{}, &struct{ middleware int }{}, &struct{ middleware []int }{}, &struct{ middleware func() }{},
	} {
		codes, ok := globalChain(reflect.ValueOf(other))
		require.False(t, ok, "%T", other)
		require.Empty(t, codes)
	}

	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	require.NoError(t, err)
	err = idem.AuditRoutes(mounted(e, "", trackerOf(e), nil, false))
	require.ErrorContains(t, err, "POST /a: is unproven: the middleware of Echo.Use could not be read")
}
