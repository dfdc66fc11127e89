package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/otelidem"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
)

// The two routes of an app have the same handler, JWT guard and roles guard.
const (
	guarded = "/v1/payments" // and a key
	bare    = "/v1/notes"    // and no key
)

// principal is the one client of all apps.
var principal = core.Principal{Issuer: "https://issuer.example", Subject: "alice"}

// patience bounds a claim. It is longer than an app should wait, so that a busy machine shows in the
// figures and does not end the benchmark.
const patience = 30 * time.Second

const secret = "a secret of a benchmark, thirty-two bytes"

// work is what a handler does before it answers. operation is the operation's id, or on the bare route the key.
type work func(ctx context.Context, operation string) error

// service configures an app.
type service struct {
	framework string // "Gin" or "Echo"
	store     core.Store
	recovery  core.Recovery
	work      work // nil: nothing
	body      []byte
	byHand    *byHand // nil: no such route
	observed  bool    // by otelidem, with metrics and with spans that are all sampled; nothing is exported
}

// app is a service, ready to be called.
type app struct {
	service
	handler http.Handler
	bearer  string
}

func (s service) observer() (core.Observer, error) {
	if !s.observed {
		return nil, nil //nolint:nilnil // an app needs none
	}
	return otelidem.Observer(otelidem.WithTracerProvider(sdktrace.NewTracerProvider()),
		otelidem.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))))
}

func (s service) open() (*app, error) {
	observer, err := s.observer()
	if err != nil {
		return nil, err
	}
	module, err := core.New(core.Config{Store: s.store, ClaimTimeout: patience, Observer: observer, Routes: core.Routes{
		"POST " + guarded:    {Recovery: s.recovery, Roles: []string{"customer"}},
		"POST " + byHandPath: {Exempt: "it has keys of its own", Roles: []string{"customer"}},
		"POST " + bare:       {Exempt: "what the guarded route is compared with", Roles: []string{"customer"}},
	}})
	if err != nil {
		return nil, err
	}
	verifier, err := authctx.New(authctx.Config{
		Keyfunc:    func(*jwt.Token) (any, error) { return []byte(secret), nil },
		Algorithms: []string{"HS256"}, Issuer: principal.Issuer, Audience: []string{"payments"},
	})
	if err != nil {
		return nil, err
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": principal.Issuer, "aud": "payments", "sub": principal.Subject, "roles": []string{"customer"},
		"exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(secret))
	if err != nil {
		return nil, err
	}
	a := &app{service: s, bearer: "Bearer " + token}
	if s.framework == "Echo" {
		a.handler = a.echo(module, verifier)
	} else {
		a.handler = a.gin(module, verifier)
	}
	return a, nil
}

func (a *app) gin(m *core.Module, v *authctx.Verifier) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	handler := func(c *gin.Context) {
		if err := a.handle(c.Request); err != nil {
			c.String(http.StatusInternalServerError, err.Error())
			return
		}
		c.Data(http.StatusCreated, "application/json", a.body)
	}
	v1 := r.Group("/v1", ginidem.JWTGuard(v))
	v1.POST("/payments", ginidem.Idempotent(m), handler)
	v1.POST("/notes", ginidem.RolesGuard(m), handler)
	if a.byHand != nil {
		v1.POST("/transfers", ginidem.RolesGuard(m), func(c *gin.Context) { a.byHand.serve(c, a.body) })
	}
	return r
}

func (a *app) echo(m *core.Module, v *authctx.Verifier) http.Handler {
	e := echo.New()
	handler := func(c echo.Context) error {
		if err := a.handle(c.Request()); err != nil {
			return c.String(http.StatusInternalServerError, err.Error())
		}
		return c.Blob(http.StatusCreated, "application/json", a.body)
	}
	v1 := e.Group("/v1", echoidem.JWTGuard(v))
	v1.POST("/payments", handler, echoidem.Idempotent(m))
	v1.POST("/notes", handler, echoidem.RolesGuard(m))
	return e
}

// handle is the handler of both routes: it reads the body, works, and the answer is as long as the body.
func (a *app) handle(r *http.Request) error {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	if a.work == nil {
		return nil
	}
	operation := r.Header.Get(core.DefaultHeader)
	if id, ok := core.Operation(r.Context()); ok {
		operation = id.String()
	}
	return a.work(r.Context(), operation)
}

// want is the answer that a request must get. Another answer ends the benchmark.
type want struct {
	status int
	result string // core.HeaderResult
}

var (
	plain   = want{http.StatusCreated, ""}
	created = want{http.StatusCreated, core.ResultCreated}
	reused  = want{http.StatusCreated, core.ResultReused}
)

// send calls the app in this process, without a network. As in net/http the request's context can end: database/sql then
// watches it while a statement runs.
func (a *app) send(path, key string, want want) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(a.body))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Authorization": {a.bearer}, "Content-Type": {"application/json"}, core.DefaultHeader: {key}}
	w := &sink{header: make(http.Header, 8)}
	a.handler.ServeHTTP(w, r)
	if result := w.header.Get(core.HeaderResult); w.status != want.status || result != want.result {
		return fmt.Errorf("%s: the answer is %d %q, not %d %q: %s", path, w.status, result, want.status, want.result, w.start)
	}
	return nil
}

// sink is a ResponseWriter that costs almost nothing. It keeps the start of the answer for messages.
type sink struct {
	header http.Header
	status int
	start  []byte
}

func (s *sink) Header() http.Header    { return s.header }
func (s *sink) WriteHeader(status int) { s.status = status }
func (s *sink) Write(p []byte) (int, error) {
	if s.status >= http.StatusBadRequest {
		s.start = append(s.start, p[:min(len(p), 512)]...)
	}
	return len(p), nil
}

var keys atomic.Uint64 // so that no two cells share one

// newKey is a new key: a UUIDv7, as clients should send, whose random part is a number instead.
func newKey() string {
	u := binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(time.Now().UnixMilli())<<16|0x7000)
	u = binary.BigEndian.AppendUint64(u, 1<<63|keys.Add(1))
	h := hex.EncodeToString(u)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// jsonBody is an order of exactly that many bytes, which are at least 100.
func jsonBody(size int) []byte {
	const (
		begin = `{"order_id":"ord_0123456789","items":[`
		item  = `{"sku":"sku-%05d","qty":%d,"price":"%d.%02d"},`
		last  = `{"sku":"`
		end   = `"}]}`
	)
	var b strings.Builder
	b.WriteString(begin)
	for i := 0; ; i++ {
		next := fmt.Sprintf(item, i*7919%100000, i%9+1, i*31%1000, i*17%100)
		if b.Len()+len(next)+len(last)+len(end) > size {
			break
		}
		b.WriteString(next)
	}
	b.WriteString(last)
	b.WriteString(strings.Repeat("x", size-b.Len()-len(end)))
	b.WriteString(end)
	return []byte(b.String())
}
