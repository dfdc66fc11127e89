package crashtest_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/auth19/idem/core/crashtest"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// What the test of an app has at hand already: its program, a database for tests, a look into its ledger.
var (
	program     string
	databaseURL string
	entriesOf   func(ctx context.Context, order string) (int, error)
	newRouter   func(store store.Store, provider *http.Client) (http.Handler, error)
)

// An app that is a process: the test to have.
func ExampleRun() {
	// func TestPaymentSurvivesCrashes(t *testing.T)
	test := func(t *testing.T) {
		crashtest.Run(t, crashtest.App{
			Command: func(ctx context.Context, g *crashtest.Gates) (*exec.Cmd, error) {
				database, err := g.Postgres(databaseURL)
				cmd := exec.CommandContext(ctx, program) // the program itself: "go run" would be killed in its place
				cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "LEASE=1s", "DATABASE_URL="+database)
				return cmd, err
			},
		}, crashtest.Scenario{
			Request: func(ctx context.Context, url string, n int) (*http.Request, error) {
				body := fmt.Sprintf(`{"order_id":"order-%d","amount":"12.50"}`, n)
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/payments", strings.NewReader(body))
				if err != nil {
					return nil, err
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Idempotency-Key", fmt.Sprintf("key-%d", n))
				return r, nil
			},
			Effects: func(ctx context.Context, _ string, n int) (crashtest.Effects, error) {
				entries, err := entriesOf(ctx, fmt.Sprintf("order-%d", n))
				return crashtest.Effects{"ledger": entries}, err
			},
			Parallel: 8, // most of the time is waiting for leases
			Patience: time.Minute,
		})
	}
	_ = test
}

// What passes the gates of an app in this process: calls of its store, and of its providers.
func ExampleGates_Store() {
	store, client := memstore.New(), http.DefaultTransport // outlive the app's crashes
	newApp := func(_ context.Context, g *crashtest.Gates) (http.Handler, error) {
		return newRouter(g.Store(store), &http.Client{Transport: g.Transport(client)})
	}
	app := crashtest.App{Handler: newApp}
	_ = app
}
