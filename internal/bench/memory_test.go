package bench_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// body is a command of 100 bytes.
var body = `{"order_id":"ord_0123456789","amount":"12.34","currency":"EUR","method":"pm_ok","note":"` +
	strings.Repeat("x", 10) + `"}`

var answer = []byte(`{"id":"pay_1","status":"captured","amount":"12.34","currency":"EUR"}`)

const (
	secret  = "a secret of a benchmark, thirty-two bytes"
	pattern = "/v1/payments"
)

func verifier(b *testing.B) *authctx.Verifier {
	b.Helper()
	v, err := authctx.New(authctx.Config{
		Keyfunc:    func(*jwt.Token) (any, error) { return []byte(secret), nil },
		Algorithms: []string{"HS256"}, Issuer: "https://issuer.example", Audience: []string{"payments"},
	})
	require.NoError(b, err)
	return v
}

func token(b *testing.B) string {
	b.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": "https://issuer.example", "aud": "payments", "sub": "alice", "roles": []string{"customer"},
		"exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(secret))
	require.NoError(b, err)
	return signed
}

// module guards the payments, which move money, and not the notes, which have the same roles guard and no key.
func module(b *testing.B) *core.Module {
	b.Helper()
	m, err := core.New(core.Config{Store: memstore.New(), Routes: core.Routes{
		"POST " + pattern: {Recovery: core.Park, Roles: []string{"customer"}},
		"POST /v1/notes":  {Exempt: "the floor of the benchmark", Roles: []string{"customer"}},
	}})
	require.NoError(b, err)
	return m
}

// apps are the two frameworks, with the bare handler behind JWT and roles guard on /v1/notes.
var apps = map[string]func(b *testing.B) http.Handler{
	"gin": func(b *testing.B) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		m := module(b)
		handler := func(c *gin.Context) {
			var buf [256]byte
			for {
				if _, err := c.Request.Body.Read(buf[:]); err != nil {
					break
				}
			}
			c.Data(http.StatusCreated, "application/json", answer)
		}
		v1 := r.Group("/v1", ginidem.JWTGuard(verifier(b)))
		v1.POST("/payments", ginidem.Idempotent(m), handler)
		v1.POST("/notes", ginidem.RolesGuard(m), handler)
		return r
	},
	"echo": func(b *testing.B) http.Handler {
		e := echo.New()
		m := module(b)
		handler := func(c echo.Context) error {
			var buf [256]byte
			for {
				if _, err := c.Request().Body.Read(buf[:]); err != nil {
					break
				}
			}
			return c.Blob(http.StatusCreated, "application/json", answer)
		}
		v1 := e.Group("/v1", echoidem.JWTGuard(verifier(b)))
		v1.POST("/payments", handler, echoidem.Idempotent(m))
		v1.POST("/notes", handler, echoidem.RolesGuard(m))
		return e
	},
}

// sink is a ResponseWriter that costs next to nothing.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

// kept is how many records a store gets to keep before it is changed for a new one. All that are kept are work for the
// garbage collector, which grows with a store and has nothing to do with a request.
const kept = 10_000

// BenchmarkMemory compares a request to the bare handler, behind JWT and roles guard, with a first request and with a
// replay, in memory: the difference is what this library costs without a database.
func BenchmarkMemory(b *testing.B) {
	for _, name := range []string{"gin", "echo"} {
		bearer := "Bearer " + token(b)
		send := func(b *testing.B, app http.Handler, path, key string) {
			r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(body))
			r.Header = http.Header{"Authorization": {bearer}, "Content-Type": {"application/json"}, "Idempotency-Key": {key}}
			w := &sink{header: make(http.Header, 8)}
			app.ServeHTTP(w, r)
			if w.status != http.StatusCreated {
				b.Fatalf("status %d", w.status)
			}
		}
		b.Run(name+"/bare", func(b *testing.B) {
			app := apps[name](b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				send(b, app, "/v1/notes", strconv.Itoa(i))
			}
		})
		b.Run(name+"/first", func(b *testing.B) {
			var app http.Handler
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%kept == 0 {
					b.StopTimer()
					app = apps[name](b)
					b.StartTimer()
				}
				send(b, app, pattern, strconv.Itoa(i))
			}
		})
		b.Run(name+"/replay", func(b *testing.B) {
			app := apps[name](b)
			b.ReportAllocs()
			for b.Loop() {
				send(b, app, pattern, "one")
			}
		})
	}
}
