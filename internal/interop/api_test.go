package interop_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

// charge is a row and its answer. It has no second line (D-1), and the same intent fits in twice: a double must show.
type charge struct {
	ID       string `json:"id" gorm:"primaryKey"`
	Object   string `json:"object" gorm:"-"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Intent   string `json:"-"`
}

// apiError is the body of Stripe's errors.
type apiError struct {
	Error struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// api is a service that speaks Stripe's dialect on POST /v1/charges.
type api struct {
	addr     string
	db       *gorm.DB
	requests atomic.Int64
}

const (
	apiKey   = "sk_test_interop"
	declined = "tok_chargeDeclined"
)

// newAPI starts a service on a database of its own. mount makes its handler.
func newAPI(t *testing.T, mount func(t *testing.T, idem *core.Module) http.Handler) *api {
	db := openPostgres(t)
	require.NoError(t, db.AutoMigrate(&charge{}))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{
		"POST /v1/charges": {Recovery: core.Rollback},
	}})
	require.NoError(t, err)

	a := &api{db: db}
	handler := mount(t, idem)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.requests.Add(1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.addr = server.Listener.Addr().String()
	return a
}

// charges counts the rows of each intent.
func (a *api) charges(t *testing.T) map[string][]string {
	var rows []charge
	require.NoError(t, a.db.Find(&rows).Error)
	ids := make(map[string][]string, len(rows))
	for _, row := range rows {
		ids[row.Intent] = append(ids[row.Intent], row.ID)
	}
	return ids
}

// frameworks mount the same service on both.
var frameworks = map[string]func(t *testing.T, idem *core.Module) http.Handler{
	"gin": func(t *testing.T, idem *core.Module) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		find := func(c *gin.Context) (authctx.Principal, error) { return principal(c.Request.Header) }
		v1 := r.Group("/v1", ginidem.Bridge(find), ginidem.Idempotent(idem))
		v1.POST("/charges", func(c *gin.Context) {
			if err := c.Request.ParseForm(); err != nil {
				c.AbortWithStatus(http.StatusBadRequest)
				return
			}
			status, body := create(c.Request.Context(), c.Request.PostForm)
			c.JSON(status, body)
		})
		require.NoError(t, ginidem.Audit(r, idem))
		return r
	},
	"echo": func(t *testing.T, idem *core.Module) http.Handler {
		e := echo.New()
		echoidem.TrackRoutes(e)
		find := func(c echo.Context) (authctx.Principal, error) { return principal(c.Request().Header) }
		v1 := e.Group("/v1", echoidem.Bridge(find), echoidem.Idempotent(idem))
		v1.POST("/charges", func(c echo.Context) error {
			form, err := c.FormParams()
			if err != nil {
				return err
			}
			status, body := create(c.Request().Context(), form)
			return c.JSON(status, body)
		})
		require.NoError(t, echoidem.Audit(e, idem))
		return e
	},
}

// principal is the account of an API key. The key itself is nobody's name: a new key of the account is the same
// principal (S-2).
func principal(header http.Header) (authctx.Principal, error) {
	switch token, err := authctx.BearerToken(header); {
	case err != nil:
		return authctx.Principal{}, err
	case token != apiKey:
		return authctx.Principal{}, errors.New("no such key")
	}
	return authctx.Principal{Issuer: "https://api.example", Subject: "acct_1"}, nil
}

// create books a charge in the attempt's transaction, or refuses as Stripe does.
func create(ctx context.Context, form url.Values) (status int, body any) {
	if form.Get("source") == declined {
		var refusal apiError
		refusal.Error.Type, refusal.Error.Code = "card_error", "card_declined"
		refusal.Error.Message = "Your card was declined."
		return http.StatusPaymentRequired, refusal
	}
	amount, err := strconv.ParseInt(form.Get("amount"), 10, 64)
	if err != nil {
		return http.StatusBadRequest, apiError{}
	}
	c := charge{
		ID: "ch_" + strings.ToLower(rand.Text()), Object: "charge", Amount: amount, Currency: form.Get("currency"),
		Intent: form.Get("metadata[intent]"),
	}
	if err := gormstore.Tx(ctx).Create(&c).Error; err != nil {
		return http.StatusInternalServerError, apiError{}
	}
	return http.StatusOK, c
}
