package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// TestOneCommand starts the program as a newcomer does, pays, and watches the worker.
func TestOneCommand(t *testing.T) {
	program := apptest.Build(t, ".")
	for _, test := range []struct {
		name, program string
		env           func(t *testing.T) []string
	}{
		{"sqlite", program, func(*testing.T) []string { return nil }},
		{"postgres", program, func(t *testing.T) []string { return []string{"DATABASE_URL=" + pgtest.URL(t)} }},
		{"nats", os.Args[0], func(t *testing.T) []string { // apptest passes no flags on
			return []string{"DATABASE_URL=" + pgtest.URL(t), childBroker + "=nats", childNATS + "=" + startNATS(t)}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, env := t.TempDir(), test.env(t)
			p := apptest.Start(t, test.program, dir, env...)
			pay := func(key string) apptest.Response {
				return p.Do(t, apptest.Request{
					Method: "POST", Path: "/v1/payments", Token: p.Tokens["customer-1"], Key: key,
					Body: `{"order_id":"o-1","amount":"12.50","currency":"EUR","method":"pm_ok"}`,
				})
			}
			says := func(line string) {
				t.Helper()
				eventually(t, line, func() bool { return strings.Contains(p.Output(), line) })
			}
			first := pay("k1")
			require.Equal(t, http.StatusCreated, first.Status, first.Body)
			require.Equal(t, first.Body, pay("k1").Body)
			require.Equal(t, http.StatusCreated, pay("k2").Status)
			says("worker: 12.50 EUR for order o-1: a piece taken, 999998 left; a mail written")
			require.Zero(t, p.Stop(t), p.Output())
			require.Empty(t, p.Log())

			p = apptest.Start(t, test.program, dir, env...)
			probe := apptest.Request{Method: http.MethodGet, Path: "/readyz"}
			p.Until(t, &probe, func(r apptest.Response) bool { return r.Status == http.StatusOK })
			require.Equal(t, first.Body, pay("k1").Body)
			require.Equal(t, http.StatusCreated, pay("k3").Status)
			says("a piece taken, 999997 left; a mail written")
			require.Zero(t, p.Stop(t), p.Output())
			require.Equal(t, 1, strings.Count(p.Output(), "worker: "))
		})
	}
}
