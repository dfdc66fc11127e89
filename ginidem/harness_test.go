package ginidem_test

import (
	"cmp"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/ncruces/go-sqlite3/gormlite"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	goleak.VerifyTestMain(m)
}

const issuer = "https://issuer.example"

var secret = []byte("a secret of thirty-two bytes or so")

func newVerifier(t testing.TB) *authctx.Verifier {
	t.Helper()
	v, err := authctx.New(authctx.Config{
		Issuer: issuer, Audience: []string{"payments"}, Algorithms: []string{"HS256"},
		Keyfunc: func(*jwt.Token) (any, error) { return secret, nil },
	})
	require.NoError(t, err)
	return v
}

// claimsOf are the claims of a customer.
func claimsOf(subject string, roles ...string) jwt.MapClaims {
	return jwt.MapClaims{"iss": issuer, "aud": "payments", "sub": subject, "roles": roles,
		"exp": float64(time.Now().Add(time.Hour).Unix())} // as parsed from JSON
}

func sign(t testing.TB, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(secret)
	require.NoError(t, err)
	return token
}

// newModule has one Park policy for every route, unless cfg says otherwise.
func newModule(t testing.TB, cfg core.Config) *core.Module {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = memstore.New()
	}
	if cfg.Routes == nil && cfg.Policy.Recovery == 0 {
		cfg.Policy.Recovery = core.Park
	}
	idem, err := core.New(cfg)
	require.NoError(t, err)
	return idem
}

// guarded is a group under /v1 with all guards.
func guarded(t testing.TB, r *gin.Engine, cfg core.Config, opts ...ginidem.Option) *gin.RouterGroup {
	t.Helper()
	return r.Group("/v1", ginidem.JWTGuard(newVerifier(t)), ginidem.Idempotent(newModule(t, cfg), opts...))
}

// app is an engine behind a real server.
type app struct {
	t      testing.TB
	ctx    context.Context
	server *httptest.Server
	token  string
}

// serve serves r until the test ends. Its requests come from customer-1, unless they say otherwise.
func serve(t testing.TB, r http.Handler) *app {
	t.Helper()
	server := httptest.NewServer(r)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // panics, where that is the test
	t.Cleanup(server.Close)
	server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	server.Client().Transport.(*http.Transport).DisableCompression = true
	return &app{t: t, ctx: t.Context(), server: server, token: sign(t, claimsOf("customer-1", "customer"))}
}

// with reports to a subtest.
func (a *app) with(t testing.TB) *app {
	return &app{t: t, ctx: t.Context(), server: a.server, token: a.token}
}

// in makes requests in ctx.
func (a *app) in(ctx context.Context) *app {
	return &app{t: a.t, ctx: ctx, server: a.server, token: a.token}
}

// call is a request; zero fields have defaults.
type call struct {
	method  string // POST
	path    string // /v1/pay
	host    string // the server's
	key     string // none
	token   string // customer-1's; "-" sends none
	body    string
	chunks  bool // of unknown length
	headers map[string]string
}

type answer struct {
	status int
	header http.Header
	body   string
	err    error // the connection broke
}

func (a *app) do(c call) answer {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.ctx, cmp.Or(c.method, http.MethodPost),
		a.server.URL+cmp.Or(c.path, "/v1/pay"), strings.NewReader(c.body))
	require.NoError(a.t, err)
	req.Host = c.host
	if c.chunks {
		req.ContentLength = -1
	}
	if token := cmp.Or(c.token, a.token); token != "-" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if c.key != "" {
		req.Header.Set("Idempotency-Key", c.key)
	}
	for name, value := range c.headers {
		req.Header.Set(name, value)
	}
	res, err := a.server.Client().Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: string(body), err: err}
}

// recorded are the headers of an answer that its replay has too.
func recorded(h http.Header) http.Header {
	kept := http.Header{}
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Location",
		"Etag", "Link", "Last-Modified"} {
		if values := h[name]; values != nil {
			kept[name] = values
		}
	}
	return kept
}

// requireReplay sends c twice and requires the recorded answer for the second.
func (a *app) requireReplay(c call) answer {
	a.t.Helper()
	c.key = cmp.Or(c.key, "key-1")
	first, again := a.do(c), a.do(c)
	require.NoError(a.t, first.err)
	require.NoError(a.t, again.err)
	require.Equal(a.t, "created", first.header.Get("Idempotency-Result"), "%+v", first)
	require.Empty(a.t, first.header.Get("Idempotent-Replayed"))
	require.Equal(a.t, "reused", again.header.Get("Idempotency-Result"), "%+v", again)
	require.Equal(a.t, "true", again.header.Get("Idempotent-Replayed"))
	require.Equal(a.t, first.status, again.status)
	require.Equal(a.t, first.body, again.body)
	require.Equal(a.t, recorded(first.header), recorded(again.header))
	require.Equal(a.t, c.key, again.header.Get("Idempotency-Key"))
	return first
}

// requireProblem requires a problem of the given status and code.
func requireProblem(t testing.TB, status int, code string, got answer) {
	t.Helper()
	require.NoError(t, got.err)
	require.Equal(t, status, got.status, got.body)
	require.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
	require.Contains(t, got.body, `"code":"`+code+`"`)
}

// payment is a row that handlers write.
type payment struct {
	ID     uint64
	Amount int
}

// database is an SQLite file with the store on it.
type database struct {
	db    *gorm.DB
	store *gormstore.Store
}

func newSQLite(t testing.TB) database {
	t.Helper()
	db, err := gorm.Open(gormlite.Open("file:"+filepath.Join(t.TempDir(), "idem.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"),
		&gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	t.Cleanup(func() {
		pool, err := db.DB()
		require.NoError(t, err)
		require.NoError(t, pool.Close())
	})
	require.NoError(t, db.AutoMigrate(&payment{}))
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return database{db, store}
}

// config is that of a module with Rollback for every route.
func (d database) config() core.Config {
	return core.Config{Store: d.store, Policy: core.Policy{Recovery: core.Rollback}}
}

// payments counts the rows.
func (d database) payments(t testing.TB) int64 {
	t.Helper()
	var n int64
	require.NoError(t, d.db.Model(&payment{}).Count(&n).Error)
	return n
}
