// Package contract runs the contract's suite on an example app, as its own process. Other apps can run the suite in the
// same way.
package contract

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/contracttest"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/mariatest"
	"github.com/auth19/idem/internal/pgtest"
)

// OnSQLite runs the suite on a program that has no DATABASE_URL, and so uses SQLite.
func OnSQLite(t *testing.T, program string) {
	t.Parallel()
	run(t, program, "")
}

// OnPostgreSQL runs the suite on a program with a fresh PostgreSQL database.
func OnPostgreSQL(t *testing.T, program string) {
	t.Parallel()
	run(t, program, pgtest.URL(t))
}

// OnMariaDB runs the suite on a program with a fresh MariaDB database.
func OnMariaDB(t *testing.T, program string) {
	t.Parallel()
	run(t, program, mariatest.URL(t))
}

// Payments runs the suite on one route only, on SQLite: for a program whose handlers are those of another.
func Payments(t *testing.T, program string) {
	app, _ := start(t, program, "")
	app.Routes = app.Routes[:1]
	contracttest.Run(t, app)
}

// start starts a program.
func start(t *testing.T, program, database string) (contracttest.App, *apptest.Process) {
	p := apptest.Start(t, program, t.TempDir(), "DATABASE_URL="+database, "JWT_SECRET="+secret)
	return contracttest.App{
		URL: p.URL, OperationPath: "/v1/operations/{id}", OwnOperationPath: "/v1/operation", Logs: p.Log,
		Tokens: tokens(t), Routes: routes(t, p),
	}, p
}

func run(t *testing.T, program, database string) {
	app, p := start(t, program, database)
	probe := apptest.Request{Method: http.MethodGet, Path: "/readyz"}
	p.Until(t, &probe, func(r apptest.Response) bool { return r.Status == http.StatusOK })
	require.JSONEq(t, `{"status":"ready","missing":[]}`, p.Do(t, probe).Body)
	contracttest.Run(t, app)

	app.Routes = []contracttest.Route{refunds(t, p, app.Tokens.Of(1))}
	app.Tokens.OtherTenant = nil // the payment belongs to one tenant
	contracttest.Run(t, app)
}

// routes are the routes that move money, one of each kind.
func routes(t *testing.T, p *apptest.Process) []contracttest.Route {
	return []contracttest.Route{
		{
			Path: "/v1/payments", Recovery: core.Rollback, Body: payment(shop.MethodOK), Declined: payment(shop.MethodDeclined),
			Slow: payment(shop.MethodSlow), Fails: payment(shop.MethodError), Effects: entries(t, p, "payment"),
		},
		{
			Path: "/v1/payouts", Recovery: core.Park, Body: payment(shop.MethodOK), Declined: payment(shop.MethodDeclined),
			Slow: payment(shop.MethodSlow), Fails: payment(shop.MethodError), Effects: entries(t, p, "provider"),
		},
		{
			Path: "/v1/balance/credit", Recovery: core.Rollback, Effects: entries(t, p, "credit"),
			Body: jsonBody(func(n int) string { return fmt.Sprintf(`{"amount":"%d.01"}`, n) }),
		},
		{
			Path: "/v1/orders", Recovery: core.Rollback, Body: order("chair"), Declined: order("sold-out"),
		},
	}
}

// refunds is the route that refunds one payment of the caller.
func refunds(t *testing.T, p *apptest.Process, caller string) contracttest.Route {
	paid := p.Do(t, apptest.Request{
		Method: http.MethodPost, Path: "/v1/payments", Token: caller, Key: intents.NewKey(),
		Body: `{"order_id":"order","amount":"9999999999.00","currency":"EUR","method":"pm_ok"}`,
	})
	require.Equal(t, http.StatusCreated, paid.Status, paid.Body)
	refund := func(method string) contracttest.Body {
		return jsonBody(func(n int) string { return fmt.Sprintf(`{"amount":"%d.01","method":"%s"}`, n, method) })
	}
	return contracttest.Route{
		Path: paid.Header.Get("Location") + "/refunds", Recovery: core.Resume, Body: refund(shop.MethodOK),
		Declined: refund(shop.MethodDeclined), Slow: refund(shop.MethodSlow), Fails: refund(shop.MethodError),
		Effects: entries(t, p, "provider"),
	}
}

// entries counts the entries of one kind in the ledger.
func entries(t *testing.T, p *apptest.Process, kind string) func(context.Context) (int, error) {
	operator := sign(t, jwt.MapClaims{"sub": "operator", "roles": []string{shop.RoleOperator}})
	return func(ctx context.Context) (int, error) {
		ledger, err := p.Try(ctx, apptest.Request{Method: http.MethodGet, Path: "/v1/ledger", Token: operator})
		return strings.Count(ledger.Body, `"kind":"`+kind+`"`), err
	}
}

func jsonBody(body func(n int) string) contracttest.Body {
	return func(n int) (string, []byte) { return "application/json", []byte(body(n)) }
}

// payment is the body of payments and payouts.
func payment(method string) contracttest.Body {
	return jsonBody(func(n int) string {
		return fmt.Sprintf(`{"order_id":"order-%d","amount":"12.50","currency":"EUR","method":"%s"}`, n, method)
	})
}

func order(sku string) contracttest.Body {
	return jsonBody(func(n int) string {
		return fmt.Sprintf(`{"customer_id":"customer-%d","items":[{"sku":"%s","qty":1,"price":"12.50"}]}`, n, sku)
	})
}

// secret signs the tokens of these tests.
const secret = "a secret that only the tests of the contract know"

// tokens are those of callers who may buy and sell.
func tokens(t *testing.T) contracttest.Tokens {
	caller := func(n int, changes jwt.MapClaims) string {
		claims := jwt.MapClaims{"sub": strconv.Itoa(n), "roles": []string{shop.RoleCustomer, shop.RoleSeller}}
		maps.Copy(claims, changes)
		return sign(t, claims)
	}
	return contracttest.Tokens{
		Of:          func(n int) string { return caller(n, nil) },
		OtherTenant: func(n int) string { return caller(n, jwt.MapClaims{"tenant": "another"}) },
		Demoted:     func(n int) string { return caller(n, jwt.MapClaims{"roles": []string{shop.RoleOperator}}) },
		Refused: map[string]string{
			"expired":        caller(1, jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}),
			"other issuer":   caller(1, jwt.MapClaims{"iss": "https://another.example"}),
			"other audience": caller(1, jwt.MapClaims{"aud": "another"}),
		},
	}
}

// sign makes a token of the app's issuer. No two are the same.
func sign(t *testing.T, changes jwt.MapClaims) string {
	claims := jwt.MapClaims{
		"iss": "https://issuer.example", "aud": "payments", "exp": time.Now().Add(time.Hour).Unix(), "jti": rand.Text(),
	}
	maps.Copy(claims, changes)
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	require.NoError(t, err)
	return token
}
