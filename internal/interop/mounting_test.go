package interop_test

import (
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-contrib/cors"
	gingzip "github.com/gin-contrib/gzip"
	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
)

// What a page of another origin may send, and what its script may read (docs/mounting.md).
var (
	origins = []string{"https://shop.example"}
	methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}
	allowed = []string{"Authorization", "Content-Type", "Idempotency-Key"}
	exposed = []string{"Idempotency-Key", "Idempotency-Problem", "Idempotency-Result", "Idempotent-Replayed", "Retry-After", "Location"}
)

// long is an answer that is worth compressing.
var long = strings.Repeat("paid ", 1000)

// mountings are apps with everything that stands in front of the guards, in the order of docs/mounting.md.
// retryLater is the answer of a rate limiter. Without Retry-After no client would repeat.
func retryLater(c echo.Context, _ string, _ error) error {
	c.Response().Header().Set("Retry-After", "1")
	return echo.ErrTooManyRequests
}

var mountings = map[string]func(t *testing.T, idem *core.Module, verifier *authctx.Verifier) http.Handler{
	"gin": func(t *testing.T, idem *core.Module, verifier *authctx.Verifier) http.Handler {
		observer := core.LogObserver(slog.New(slog.DiscardHandler))
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		r.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusInternalServerError) }))
		r.Use(gin.LoggerWithWriter(io.Discard))
		r.Use(cors.New(cors.Config{AllowOrigins: origins, AllowMethods: methods, AllowHeaders: allowed, ExposeHeaders: exposed}))
		r.Use(gingzip.Gzip(gingzip.DefaultCompression))

		v1 := r.Group("/v1", ginidem.JWTGuard(verifier, observer), ginidem.Idempotent(idem))
		v1.POST("/payments", func(c *gin.Context) {
			c.Header("Location", "/v1/payments/7")
			c.String(http.StatusCreated, long)
		})
		require.NoError(t, ginidem.Audit(r, idem))
		return r
	},
	"echo": func(t *testing.T, idem *core.Module, verifier *authctx.Verifier) http.Handler {
		observer := core.LogObserver(slog.New(slog.DiscardHandler))
		e := echo.New()
		echoidem.TrackRoutes(e)
		e.Use(middleware.Recover())
		e.Use(middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
			LogValuesFunc: func(echo.Context, middleware.RequestLoggerValues) error { return nil },
		}))
		e.Use(middleware.CORSWithConfig(middleware.CORSConfig{AllowOrigins: origins, AllowMethods: methods, AllowHeaders: allowed, ExposeHeaders: exposed}))
		e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
			Store:       middleware.NewRateLimiterMemoryStore(1000),
			DenyHandler: retryLater, // 429, with Retry-After
		}))
		e.Use(middleware.Gzip())

		v1 := e.Group("/v1", echoidem.JWTGuard(verifier, observer), echoidem.Idempotent(idem))
		v1.POST("/payments", func(c echo.Context) error {
			c.Response().Header().Set("Location", "/v1/payments/7")
			return c.String(http.StatusCreated, long)
		})
		require.NoError(t, echoidem.Audit(e, idem))
		return e
	},
}

// A page of another origin asks first, sends its key, and reads all headers of the answer; also those of a refusal.
//
// CONTRACT O-1, M-3
func TestMounting(t *testing.T) {
	for name, mount := range mountings {
		t.Run(name, func(t *testing.T) {
			idem := newModule(t)
			verifier, sign := newIssuer(t)
			app := mount(t, idem, verifier)
			send := func(method string, header map[string]string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(method, "/v1/payments", strings.NewReader(`{}`))
				r.Header.Set("Origin", origins[0])
				for name, value := range header {
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				app.ServeHTTP(w, r)
				require.Equal(t, origins[0], w.Header().Get("Access-Control-Allow-Origin"))
				return w
			}
			asked := send(http.MethodOptions, map[string]string{
				"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
			})
			require.Equal(t, http.StatusNoContent, asked.Code, "without a token: a browser sends none")
			require.Contains(t, strings.ToLower(asked.Header().Get("Access-Control-Allow-Headers")), "idempotency-key")

			refused := send(http.MethodPost, nil)
			require.Equal(t, http.StatusUnauthorized, refused.Code)

			header := map[string]string{
				"Authorization": "Bearer " + sign(jwt.MapClaims{"sub": "customer-1"}), "Idempotency-Key": "key-1",
				"Content-Type": "application/json",
			}
			plain := send(http.MethodPost, header)
			require.Equal(t, http.StatusCreated, plain.Code, plain.Body)
			require.Equal(t, long, plain.Body.String())
			header["Accept-Encoding"] = "gzip" // the repeat gets the encoding that it accepts
			zipped := send(http.MethodPost, header)
			require.Equal(t, "gzip", zipped.Header().Get("Content-Encoding"))
			content, err := gzip.NewReader(zipped.Body)
			require.NoError(t, err)
			body, err := io.ReadAll(content)
			require.NoError(t, err)
			require.Equal(t, long, string(body))
			require.Equal(t, "true", zipped.Header().Get("Idempotent-Replayed"))
			require.Equal(t, "/v1/payments/7", zipped.Header().Get("Location"))
			for _, w := range []*httptest.ResponseRecorder{refused, plain, zipped} {
				for _, name := range exposed {
					require.Contains(t, w.Header().Get("Access-Control-Expose-Headers"), name)
				}
			}
		})
	}
}

// The headers that survive a replay are those that docs/mounting.md lists, and what Config.ReplayHeaders adds.
//
// CONTRACT R-3
func TestReplayedHeaders(t *testing.T) {
	survive := []string{
		"Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Location", "ETag", "Link", "Last-Modified",
	}
	gone := []string{"Set-Cookie", "Cache-Control", "Vary", "X-Request-Id", "X-RateLimit-Remaining", "Expires"}
	page, err := os.ReadFile("../../docs/mounting.md")
	require.NoError(t, err)
	r := gin.New()
	first := true
	find := func(*gin.Context) (authctx.Principal, error) { return authctx.User(shop, 17) }
	r.POST("/v1/payouts", ginidem.Bridge(find), ginidem.Idempotent(newModule(t)), func(c *gin.Context) {
		require.True(t, first)
		first = false
		for _, name := range append(survive, gone...) {
			c.Header(name, "value")
		}
		c.Status(http.StatusCreated)
	})
	require.Equal(t, http.StatusCreated, payout(r, nil).Code)
	replay := payout(r, nil)
	for _, name := range survive {
		require.Equal(t, "value", replay.Header().Get(name), name)
		require.Contains(t, string(page), "`"+name+"`")
	}
	for _, name := range gone {
		require.Empty(t, replay.Header().Get(name), name)
	}
}

// forgetful is a store that loses every answer.
type forgetful struct{ store.Operations }

func (forgetful) End(context.Context, store.Ticket, store.Ending) error { return core.ErrStale }

// The compression and the recovery that apps mount in front: an answer that left before it was recorded, and then was not,
// breaks off for its client.
//
// CONTRACT
func TestAStreamBehindCompressionBreaksOff(t *testing.T) {
	idem, err := core.New(core.Config{Store: forgetful{memstore.New()}, Policy: core.Policy{Recovery: core.Park, Streaming: true}})
	require.NoError(t, err)
	pay := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", strconv.Itoa(len(long)))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, long)
		_ = http.NewResponseController(w).Flush()
	}
	r := gin.New()
	r.Use(gin.RecoveryWithWriter(io.Discard), gingzip.Gzip(gingzip.DefaultCompression))
	r.POST("/pay", ginidem.Bridge(func(*gin.Context) (authctx.Principal, error) { return authctx.User(shop, 17) }),
		ginidem.Idempotent(idem), func(c *gin.Context) { pay(c.Writer) })
	e := echo.New()
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true}), middleware.Gzip())
	e.POST("/pay", func(c echo.Context) error { pay(c.Response()); return nil },
		echoidem.Bridge(func(echo.Context) (authctx.Principal, error) { return authctx.User(shop, 17) }), echoidem.Idempotent(idem))
	for name, app := range map[string]http.Handler{"gin": r, "echo": e} {
		for _, encoding := range []string{"gzip", "identity"} {
			t.Run(name+" "+encoding, func(t *testing.T) {
				server := httptest.NewServer(app)
				defer server.Close()
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/pay", http.NoBody)
				require.NoError(t, err)
				request.Header.Set("Idempotency-Key", name+encoding)
				request.Header.Set("Accept-Encoding", encoding)
				answer, err := server.Client().Do(request)
				if err != nil {
					return // not even a header
				}
				defer func() { _ = answer.Body.Close() }()
				_, err = io.ReadAll(answer.Body)
				require.Error(t, err)
			})
		}
	}
}
