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

// CONTRACT O-4
func TestReservations(t *testing.T) {
	// The route is looked up once, and the roles are checked once: both are gone after that, and the request goes on.
	t.Run("a reservation looks up route and roles once", func(t *testing.T) {
		m := newModule(t, core.Config{Store: memstore.New(), Routes: core.Routes{
			"POST /pay": {Recovery: core.Park, Roles: []string{"customer"}},
		}})
		customer := alice
		customer.Roles = []string{"customer"}
		r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader(`{}`))
		r.Header.Set(core.DefaultHeader, "k-1")

		h, reply := m.ReserveFor(r, "/pay", new(int))
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
	})
	t.Run("inside such an attempt the request's context has no admission, only the attempt", func(t *testing.T) {
		m := newModule(t, core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
		r := newCommand("k-1", `{}`)
		h, reply := m.ReserveFor(r, pattern, new(int))
		require.Nil(t, reply)
		defer h.Release()
		admitted, reply := h.Admit(r, alice)
		require.Nil(t, reply)
		attempt, reply := h.Begin(admitted, alice)
		require.Nil(t, reply)
		_, reply = m.Admit(attempt.Request(), pattern, alice)
		require.NotNil(t, reply)
		require.Contains(t, string(reply.Body), "guarded twice")
		require.NoError(t, reply.WriteTo(attempt.Capture(httptest.NewRecorder())))
		require.Equal(t, http.StatusInternalServerError, attempt.Finish().Status)
	})
	t.Run("the three guards in one ask for the caller and for the route once, whatever becomes of the request", func(t *testing.T) {
		m := newModule(t, core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
		for _, tt := range []struct{ name, key, body, result string }{
			{"first request", "k-1", `{}`, core.ResultCreated},
			{"replay", "k-1", `{}`, core.ResultReused},
			{"another command", "k-1", `[]`, ""},
			{"no key", "", `{}`, ""},
		} {
			r := newCommand(tt.key, tt.body)
			w := httptest.NewRecorder()
			x := &countedExchange{w: w, r: r}
			require.NoError(t, m.Idempotent(x), tt.name)
			require.Equal(t, tt.result, w.Header().Get(core.HeaderResult), tt.name)
			require.Equal(t, 1, x.patterns, tt.name)
			require.Equal(t, 1, x.principals, tt.name)
		}
	})
}

// countedExchange counts what it is asked for. Its request is recycled by nobody and overtaken by nobody.
type countedExchange struct {
	core.Exchange
	w                    http.ResponseWriter
	r                    *http.Request
	patterns, principals int
}

func (x *countedExchange) Pattern() string {
	x.patterns++
	return pattern
}

func (x *countedExchange) Principal() core.Principal {
	x.principals++
	return alice
}

func (x *countedExchange) Request() *http.Request      { return x.r }
func (x *countedExchange) SetRequest(r *http.Request)  { x.r = r }
func (x *countedExchange) Writer() http.ResponseWriter { return x.w }
func (x *countedExchange) Kept() [][]byte              { return nil }
func (x *countedExchange) Recycled() any               { return nil }
func (x *countedExchange) Answered() bool              { return false }
func (x *countedExchange) Send(reply *core.Reply)      { _ = reply.WriteTo(x.w) }
func (x *countedExchange) Answer(error)                {}
func (x *countedExchange) Leave(bool)                  {}
func (x *countedExchange) Sent(error)                  {}

func (x *countedExchange) Enter(c *core.Capture) any {
	x.w = c
	return nil
}

func (x *countedExchange) Next() error {
	created(x.w, x.r)
	return nil
}
