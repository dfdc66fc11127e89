package contracttest_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/contracttest"
)

// What the test of an app has at hand already: its router, tokens, a look into its ledger.
var (
	router http.Handler
	login  func(subject string, roles ...string) (token string)
	count  func(ctx context.Context, table string) (int, error)
)

func ExampleRun() {
	// func TestContract(t *testing.T)
	test := func(t *testing.T) {
		pay := func(method string) contracttest.Body {
			return func(n int) (contentType string, body []byte) {
				const command = `{"order_id":"order-%d","amount":"12.50","method":"%s"}`
				return "application/json", fmt.Appendf(nil, command, n, method)
			}
		}
		contracttest.Run(t, contracttest.App{
			Handler: router,
			Tokens: contracttest.Tokens{
				Of:      func(n int) string { return login(fmt.Sprint("customer-", n), "customer") },
				Demoted: func(n int) string { return login(fmt.Sprint("customer-", n)) },
			},
			Routes: []contracttest.Route{{
				Path: "/v1/payments", Recovery: core.Rollback,
				Body: pay("card"), Declined: pay("declined"),
				Effects: func(ctx context.Context) (int, error) { return count(ctx, "ledger") },
			}},
		})
	}
	_ = test
}
