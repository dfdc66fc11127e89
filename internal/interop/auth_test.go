package interop_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
)

// The middlewares that docs/auth.md names are tried here, in the code that the page shows.

// shop is the issuer of the tokens, and the name of where the users come from.
const shop = "https://shop.example"

// secretKey signs the tokens.
var secretKey = []byte("a secret of thirty-two bytes or so")

// account is a user of the app.
type account struct {
	ID    int
	Roles []string
}

// newModule guards every unsafe route.
func newModule(t *testing.T) *core.Module {
	t.Helper()
	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	require.NoError(t, err)
	return idem
}

// ginApp mounts a guarded route that names its caller.
func ginApp(t *testing.T, guards ...gin.HandlerFunc) http.Handler {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	idem := newModule(t)
	r := gin.New()
	v1 := r.Group("/v1", append(guards, ginidem.Idempotent(idem))...)
	v1.POST("/payouts", func(c *gin.Context) { c.String(http.StatusCreated, caller(c.Request)) })
	require.NoError(t, ginidem.Audit(r, idem))
	return r
}

// echoApp mounts a guarded route that names its caller.
func echoApp(t *testing.T, guards ...echo.MiddlewareFunc) http.Handler {
	t.Helper()
	idem := newModule(t)
	e := echo.New()
	echoidem.TrackRoutes(e)
	v1 := e.Group("/v1", append(guards, echoidem.Idempotent(idem))...)
	v1.POST("/payouts", func(c echo.Context) error { return c.String(http.StatusCreated, caller(c.Request())) })
	require.NoError(t, echoidem.Audit(e, idem))
	return e
}

func caller(r *http.Request) string {
	p, _ := authctx.FromContext(r.Context())
	return fmt.Sprintf("%s %q %s %v", p.Issuer, p.Tenant, p.Subject, p.Roles)
}

// payout sends a payout with the credentials that authorize adds.
func payout(app http.Handler, authorize func(r *http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/payouts", strings.NewReader(`{"amount":"12.50"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "key-1")
	if authorize != nil {
		authorize(r)
	}
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

func bearer(token string) func(r *http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// requireCaller sends a payout twice: the second answer is the first one's. Without credentials it is 401.
func requireCaller(t *testing.T, app http.Handler, authorize func(r *http.Request), want string) {
	t.Helper()
	for _, result := range []string{wire.ResultCreated, wire.ResultReused} {
		w := payout(app, authorize)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
		require.Equal(t, want, w.Body.String())
		require.Equal(t, result, w.Header().Get(wire.HeaderResult))
	}
	w := payout(app, nil)
	require.Equal(t, http.StatusUnauthorized, w.Code, w.Body)
	require.Empty(t, w.Header().Get(wire.HeaderResult))
}

// refusals keeps the reasons that observers are told.
type refusals struct {
	mu      sync.Mutex
	reasons []string
}

func (o *refusals) Observe(_ context.Context, e core.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Kind == core.EventRefused && e.Err != nil {
		o.reasons = append(o.reasons, e.Err.Error())
	}
}

var observer = core.LogObserver(slog.New(slog.DiscardHandler))
