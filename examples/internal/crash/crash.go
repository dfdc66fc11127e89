// Package crash kills an example app at every step of its commands, one for each recovery, on PostgreSQL.
package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the database is read without the app
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/crashtest"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/internal/pgtest"
)

// Run kills the program of an app between every two statements of its commands, and on the way of request and answer.
// After the restart and the repeats there is one charge, one entry and one answer.
//
// CONTRACT, F-2
func Run(t *testing.T, program string) {
	t.Parallel()
	for name, scenario := range map[string]func(d databases) crashtest.Scenario{
		"Rollback payment": payments, "Resume refund": refunds, "Park payout": payouts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDatabases(t)
			s := scenario(d)
			s.Patience = 2 * time.Minute // of a busy machine
			crashtest.Run(t, crashtest.App{
				Command: func(ctx context.Context, g *crashtest.Gates) (*exec.Cmd, error) {
					url, err := g.Postgres(d[g.Lane()].url)
					cmd := exec.CommandContext(ctx, program)
					cmd.Dir = t.TempDir()
					cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "JWKS_URL=", "RETENTION=", "UNSAFE_SIMULATOR=",
						"JWT_SECRET="+secret, "LEASE=1s", "DEADLINE=10s", "DATABASE_URL="+url)
					return cmd, err
				},
			}, s)
		})
	}
}

// parallel is higher than the number of processors, because most of the time is waiting for a lease.
const parallel = 6

func payments(d databases) crashtest.Scenario {
	return crashtest.Scenario{
		Request: func(ctx context.Context, url string, n int) (*http.Request, error) {
			return post(ctx, url+"/v1/payments", n, "pay", paymentBody(n))
		},
		Effects:    d.effects(`SELECT 'payment', count(*) FROM ledger WHERE kind = 'payment' AND principal = $1`),
		Executions: d.attempts("/v1/payments"),
		Parallel:   parallel,
	}
}

func refunds(d databases) crashtest.Scenario {
	return crashtest.Scenario{
		Request: func(ctx context.Context, url string, n int) (*http.Request, error) {
			payment, err := pay(ctx, url, n)
			if err != nil {
				return nil, err
			}
			return post(ctx, url+payment+"/refunds", n, "refund", `{"amount":"4.00"}`)
		},
		Effects: d.effects(`SELECT 'refund', count(*) FROM ledger WHERE kind = 'refund' AND principal = $1
UNION ALL SELECT 'provider', count(*) FROM provider_charges WHERE principal = $1
UNION ALL SELECT 'cents', coalesce(sum(refunded_cents), 0) FROM payments WHERE order_id = $1`),
		Executions: d.attempts("/v1/payments/:id/refunds"),
		Parallel:   parallel,
	}
}

func payouts(d databases) crashtest.Scenario {
	return crashtest.Scenario{
		Request: func(ctx context.Context, url string, n int) (*http.Request, error) {
			return post(ctx, url+"/v1/payouts", n, "payout", `{"amount":"7.00","currency":"EUR","method":"pm_ok"}`)
		},
		Effects: d.effects(`SELECT 'payout', count(*) FROM ledger WHERE kind = 'payout' AND principal = $1
UNION ALL SELECT 'provider', count(*) FROM provider_charges WHERE principal = $1`),
		Executions: d.attempts("/v1/payouts"),
		Unknown:    true, // the provider cannot be asked twice
		Parallel:   parallel,
	}
}

// customer sends command n, and the commands that it needs. Each customer has one.
func customer(n int) string { return fmt.Sprint("customer-", n) }

func paymentBody(n int) string {
	return fmt.Sprintf(`{"order_id":"%s","amount":"10.00","currency":"EUR","method":"pm_ok"}`, customer(n))
}

// pay makes a payment, repeated as clients do, and returns its path.
func pay(ctx context.Context, url string, n int) (path string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for ; ; time.Sleep(50 * time.Millisecond) {
		r, err := post(ctx, url+"/v1/payments", n, "pay", paymentBody(n))
		if err != nil {
			return "", err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		switch {
		case err != nil:
			return "", err
		case answer.StatusCode == http.StatusCreated:
			return answer.Header.Get("Location"), nil
		case answer.Header.Get("Retry-After") == "":
			return "", fmt.Errorf("a payment was answered with %d %s", answer.StatusCode, body)
		}
	}
}

func post(ctx context.Context, url string, n int, key, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": issuer, "aud": "payments", "sub": customer(n), "exp": time.Now().Add(time.Hour).Unix(),
		"roles": []string{shop.RoleCustomer, shop.RoleSeller},
	}).SignedString([]byte(secret))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	return r, nil
}

const (
	issuer = "https://issuer.example"
	secret = "a secret that only the tests of crashes know"
)

// databases are read without the app, which may be dead. Each lane has one, because an app that starts locks its database.
type databases []database

type database struct {
	url  string
	pool *sql.DB
}

func openDatabases(t *testing.T) (d databases) {
	t.Helper()
	for range parallel {
		url := pgtest.URL(t)
		pool, err := sql.Open("pgx", url)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, pool.Close()) })
		d = append(d, database{url, pool})
	}
	return d
}

// of returns the database of command n.
func (d databases) of(n int) *sql.DB { return d[n%parallel].pool }

// effects counts with a query that returns names and numbers, for a customer.
func (d databases) effects(query string) func(ctx context.Context, _ string, n int) (crashtest.Effects, error) {
	return func(ctx context.Context, _ string, n int) (_ crashtest.Effects, err error) {
		rows, err := d.of(n).QueryContext(ctx, query, customer(n))
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		effects := crashtest.Effects{}
		for rows.Next() {
			var name string
			var count int
			if err := rows.Scan(&name, &count); err != nil {
				return nil, err
			}
			effects[name] = count
		}
		return effects, rows.Err()
	}
}

// attempts counts the attempts that have left a row. One that was rolled back has not.
func (d databases) attempts(route string) func(ctx context.Context, _ string, n int) (int, error) {
	return func(ctx context.Context, _ string, n int) (count int, err error) {
		scope := core.Scoping{}.PrincipalScope(core.Principal{Issuer: issuer, Subject: customer(n)})
		err = d.of(n).QueryRowContext(ctx, `SELECT coalesce(max(fence), 0) FROM idempotency_record
WHERE scope = $1 AND route = $2`, scope[:], route).Scan(&count)
		return count, err
	}
}
