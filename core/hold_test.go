package core_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// The route is looked up once, and the roles are checked once: both are gone after that, and the request goes on.
func TestAHoldLooksUpRouteAndRolesOnce(t *testing.T) {
	m, err := core.New(core.Config{Store: memstore.New(), Routes: core.Routes{
		"POST /pay": {Recovery: core.Park, Roles: []string{"customer"}},
	}})
	require.NoError(t, err)
	customer := alice
	customer.Roles = []string{"customer"}
	r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader(`{}`))
	r.Header.Set(core.DefaultHeader, "k-1")

	h, reply := m.HoldRequest(r, "/pay", new(int))
	require.Nil(t, reply)
	defer h.Release()
	h.ForgetRoute()
	admitted, reply := h.Admit(r, customer)
	require.Nil(t, reply)
	h.ForgetRoles()
	attempt, reply := h.Begin(admitted, customer)
	require.Nil(t, reply)
	w := httptest.NewRecorder()
	attempt.Capture(w).WriteHeader(http.StatusCreated)
	require.NoError(t, attempt.Finish().WriteTo(w))
	require.Equal(t, http.StatusCreated, w.Code)
}
