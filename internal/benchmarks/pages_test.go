package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/internal/pgtest"
)

// unknownRecords adds 50,000 records of a realm. Every fifth is an unknown operation, of one of three routes.
var unknownRecords = map[string]string{
	"postgres": `INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, expires_at, due_at)
SELECT sha256(i::text::bytea), sha256((i % 100)::text::bytea), $1::bytea, substr(sha256('owner'), 1, 16), 1, CASE WHEN i % 5 = 0 THEN 3 ELSE 2 END, 3,
	'POST', '/v1/payments/' || i % 3, 1, sha256('command'), now - i * 1000000::bigint, now - i * 1000000::bigint,
	now - i * 1000000::bigint, now + 86400000000, CASE WHEN i % 5 <> 0 THEN now + 86400000000 END
FROM generate_series(1, 50000) i, (SELECT (extract(epoch FROM now()) * 1000000)::bigint AS now) c`,
	"sqlite": `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000),
	c AS MATERIALIZED (SELECT unixepoch() * 1000000 AS now)
INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route, hash_version, command_hash,
	created_at, lease_until, deadline_at, expires_at, due_at)
SELECT randomblob(32), randomblob(32), $1, randomblob(16), 1, CASE WHEN i % 5 = 0 THEN 3 ELSE 2 END, 3, 'POST',
	'/v1/payments/' || i % 3, 1, randomblob(32), now - i * 1000000, now - i * 1000000, now - i * 1000000, now + 86400000000,
	CASE WHEN i % 5 <> 0 THEN now + 86400000000 END FROM n, c`,
}

// BenchmarkPages says what the operators' pages cost with 10,000 unknown operations among 50,000 records: processor time of
// the app, and of PostgreSQL's processes, in milliseconds a page.
func BenchmarkPages(b *testing.B) {
	for name, open := range map[string]func(testing.TB) (opened, error){
		"PostgreSQL": func(t testing.TB) (opened, error) { return openPool(t, pgtest.URL(t)) },
		"SQLite":     openSQLite,
	} {
		b.Run(name, func(b *testing.B) {
			on, err := open(b)
			require.NoError(b, err)
			realm := core.Scoping{}.PrincipalRealm(principal)
			_, err = on.pool.Exec(unknownRecords[on.db.Name()], realm[:])
			require.NoError(b, err)
			_, err = on.pool.Exec("ANALYZE")
			require.NoError(b, err)
			postmaster := 0
			if name == "PostgreSQL" {
				postmaster, err = postmasterOf(on.pool)
				require.NoError(b, err)
			}
			pages := operatorsPages(b, on)
			second := regexp.MustCompile(`operations\?after=[^"]+`).FindString(show(b, pages, "operations"))
			require.NotEmpty(b, second)
			for _, page := range []struct{ name, address string }{
				{"overview", ""}, {"list", "operations"}, {"newest", "operations?order=newest"},
				{"second", strings.ReplaceAll(second, "&amp;", "&")}, {"route", "operations?route=POST+%2Fv1%2Fpayments%2F1"},
			} {
				measure(b, page.name, postmaster, func(b *testing.B) { show(b, pages, page.address) })
			}
			measure(b, "find", postmaster, func(b *testing.B) {
				form := url.Values{"id": {strings.Repeat("0", 64)}, "call": {"payout"}} // a provider's key of none of them
				r := httptest.NewRequest(http.MethodPost, "/idem/find", strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				w := httptest.NewRecorder()
				pages.ServeHTTP(w, r)
				require.Equal(b, http.StatusNotFound, w.Code, w.Body)
			})
		})
	}
}

// measure runs a benchmark, and says how much processor time it takes.
func measure(b *testing.B, name string, postmaster int, run func(b *testing.B)) {
	b.Run(name, func(b *testing.B) {
		run(b)
		before := processorNow(postmaster)
		for b.Loop() {
			run(b)
		}
		app, server := processorNow(postmaster).since(before)
		b.ReportMetric(app.Seconds()*1e3/float64(b.N), "app-ms/op")
		b.ReportMetric(server.Seconds()*1e3/float64(b.N), "server-ms/op")
	})
}

func operatorsPages(b *testing.B, on opened) http.Handler {
	role := []core.IssuerRole{{Issuer: principal.Issuer, Role: "operator"}}
	module, err := core.New(core.Config{
		Store: on.store, Policy: core.Policy{Recovery: core.Park}, OperatorRoles: role, SupervisorRoles: role,
		Observer: core.ObserverFunc(func(context.Context, core.Event) {}),
	})
	require.NoError(b, err)
	operator := principal
	operator.Roles = []string{"operator"}
	pages, err := inspect.New(inspect.Config{Module: module,
		Caller: func(*http.Request) (core.Principal, error) { return operator, nil }})
	require.NoError(b, err)
	return pages
}

func show(b *testing.B, pages http.Handler, address string) string {
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/idem/"+address, http.NoBody))
	require.Equal(b, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}
