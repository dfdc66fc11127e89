package contracttest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/auth19/idem/core/contracttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both adapters keep the contract, also with routes of full size, which the mutants have not.
func TestAdapters(t *testing.T) {
	for framework, serve := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			b := inMemory(t)
			b.open(t, nil)
			app := b.app(t, serve(b))
			app.Routes[0].Slow = method("slow")
			contracttest.Run(t, app)
		})
	}
}
