package core_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// A configuration that is not safe is refused, and everything that is wrong with it is named at once.
func ExampleNew_mistakes() {
	_, err := core.New(core.Config{Store: memstore.New(), Routes: core.Routes{
		"POST /v1/payments": {},
		"POST /v1/payouts":  {Recovery: core.Rollback, Retention: time.Hour},
	}})
	for line := range strings.Lines(err.Error()) {
		fmt.Printf("%.100s...\n", strings.TrimSpace(line))
	}
	// Output:
	// idem: core.New: Routes["POST /v1/payments"]: Recovery: choose one, money safety has no default: core...
	// Routes["POST /v1/payouts"]: Recovery: Rollback needs a store that runs the handler's rows in the cla...
	// Routes["POST /v1/payouts"]: Retention: 1h0m0s is not between 24h0m0s and 72h0m0s...
}
