package contracttest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/auth19/idem/core/contracttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both adapters keep the contract, with both recoveries.
func TestAdapters(t *testing.T) {
	for framework, serve := range frameworks {
		for store, open := range map[string]func(*testing.T) *bank{"memstore": inMemory, "sqlite": onSQLite} {
			t.Run(framework+" "+store, func(t *testing.T) {
				b := open(t)
				b.open(t, nil)
				app := b.app(t, serve(b))
				app.Routes[0].Slow = method("slow")
				contracttest.Run(t, app)
			})
		}
	}
}
