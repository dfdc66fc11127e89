package adaptertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/contracttest"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
)

// otherIssuer is trusted by the app of Contract too.
const otherIssuer = "https://other.example"

// Contract runs the contract's suite on an app of the framework: one that books payments in SQLite, and pays out.
func Contract(t *testing.T, a Adapter) {
	var log syncBuffer
	observer := core.LogObserver(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	database, customer, account := NewSQLite(t), []string{"customer"}, "/accounts/"+param(a, "id")+"/payouts"
	var payouts atomic.Int64
	idem := NewModule(t, core.Config{Store: database.Store, Observer: observer, Routes: core.Routes{
		"POST /v1/payments":  {Recovery: core.Rollback, Roles: customer},
		"POST /v1" + account: {Recovery: core.Park, Roles: customer},
		"PUT /v1" + account:  {Recovery: core.Park, Roles: customer},
	}})
	app := a.New()
	v1 := app.Group("/v1", a.JWTGuard(twoIssuers(t), observer), a.Idempotent(idem))
	v1.Handle(http.MethodPost, "/payments", booking(a, func(ctx context.Context) { Pay(t, ctx) }))
	payOut := booking(a, func(context.Context) { payouts.Add(1) })
	v1.Handle(http.MethodPost, account, payOut)
	v1.Handle(http.MethodPut, account, payOut)
	v1.Handle(http.MethodGet, "/operation", a.Operations(idem, operations.Own))
	v1.Handle(http.MethodGet, "/operations/"+param(a, "id"), a.Operations(idem, operations.Show))
	require.NoError(t, app.Audit(idem))

	route := contracttest.Route{Body: bookingBy("card"), Declined: bookingBy("declined"), Slow: bookingBy("slow"),
		Fails: bookingBy("fails")}
	payment, payout := route, route
	payment.Path, payment.Recovery = "/v1/payments", core.Rollback
	payment.Effects = func(context.Context) (int, error) { return int(database.Payments(t)), nil }
	payout.Path, payout.OtherPath, payout.Recovery = "/v1/accounts/a/payouts", "/v1/accounts/b/payouts", core.Park
	payout.Effects = func(context.Context) (int, error) { return int(payouts.Load()), nil }
	put := payout
	put.Method, put.Slow = http.MethodPut, nil
	contracttest.Run(t, contracttest.App{
		Handler: app, OperationPath: "/v1/operations/{id}", OwnOperationPath: "/v1/operation", Logs: log.String,
		Tokens: contractTokens(t), Routes: []contracttest.Route{payment, payout, put},
	})
	t.Run("profile of the IETF", func(t *testing.T) { contractOfTheIETF(t, a) })
}

// contractOfTheIETF runs the suite in the other profile, on one route in memory.
func contractOfTheIETF(t *testing.T, a Adapter) {
	var payouts atomic.Int64
	idem := NewModule(t, core.Config{Store: memstore.New(), Profile: core.IETF, PolicyURL: "https://bank.example/idempotency",
		Routes: core.Routes{"POST /v1/payouts": {Recovery: core.Park, Roles: []string{"customer"}}}})
	app := a.New()
	v1 := app.Group("/v1", a.JWTGuard(twoIssuers(t), nil), a.Idempotent(idem))
	v1.Handle(http.MethodPost, "/payouts", booking(a, func(context.Context) { payouts.Add(1) }))
	contracttest.Run(t, contracttest.App{
		Handler: app, Profile: core.IETF, Tokens: contractTokens(t), Routes: []contracttest.Route{{
			Path: "/v1/payouts", Recovery: core.Park, Body: bookingBy("card"), Slow: bookingBy("slow"),
			Effects: func(context.Context) (int, error) { return int(payouts.Load()), nil },
		}},
	})
}

// booking is a handler that does book.
func booking(a Adapter, book func(ctx context.Context)) Handler {
	var answers atomic.Int64
	return a.Handler(func(c Context) error {
		var in struct{ Order, Method string }
		if json.NewDecoder(c.Request().Body).Decode(&in) != nil || in.Order == "" {
			return c.JSON(http.StatusUnprocessableEntity, "no order")
		}
		if in.Method == "declined" {
			return c.JSON(http.StatusPaymentRequired, rand.Text())
		}
		book(c.Request().Context())
		switch in.Method {
		case "slow":
			time.Sleep(500 * time.Millisecond) // as long as contracttest.Route.Slow asks for
		case "fails":
			return c.JSON(http.StatusInternalServerError, "after the booking")
		}
		n := answers.Add(1)
		h := c.Writer().Header()
		h.Set("Location", fmt.Sprint("/v1/bookings/", n))
		for _, name := range []string{
			"Content-Encoding", "Content-Language", "Content-Disposition", "Etag", "Link", "Last-Modified",
		} {
			h.Set(name, fmt.Sprintf("%s of %d", name, n)) // whatever it is, it is recorded
		}
		return c.JSON(http.StatusCreated, n)
	})
}

func bookingBy(method string) contracttest.Body {
	return func(n int) (string, []byte) {
		return "application/json", fmt.Appendf(nil, `{"order":"order-%d","method":"%s"}`, n, method)
	}
}

func twoIssuers(t *testing.T) *authctx.Verifier {
	var issuers []authctx.Config
	for _, name := range []string{Issuer, otherIssuer} {
		issuers = append(issuers, authctx.Config{
			Issuer: name, Audience: []string{"payments"}, Algorithms: []string{"HS256"}, TenantClaim: "tenant",
			Keyfunc: func(*jwt.Token) (any, error) { return secret, nil },
		})
	}
	v, err := authctx.New(issuers...)
	require.NoError(t, err)
	return v
}

func contractTokens(t *testing.T) contracttest.Tokens {
	sign := func(n int, name string, value any) string {
		claims := ClaimsOf(fmt.Sprint("customer-", n), "customer")
		claims["jti"], claims["tenant"] = rand.Text(), "t-1"
		claims[name] = value
		return Sign(t, claims)
	}
	return contracttest.Tokens{
		Of:          func(n int) string { return sign(n, "nonce", 1) },
		OtherIssuer: func(n int) string { return sign(n, "iss", otherIssuer) },
		OtherTenant: func(n int) string { return sign(n, "tenant", "t-2") },
		Demoted:     func(n int) string { return sign(n, "roles", []string{"visitor"}) },
		Refused: map[string]string{
			"expired":        sign(0, "exp", time.Now().Add(-time.Hour).Unix()),
			"unknown issuer": sign(0, "iss", "https://nobody.example"),
			"no subject":     sign(0, "sub", ""),
		},
	}
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
