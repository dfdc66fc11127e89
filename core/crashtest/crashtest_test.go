package crashtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/auth19/idem/core/crashtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// CONTRACT
func TestBank(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *bank{
		"Park": parking, "Resume": resuming, "Rollback": rollingBack,
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			crashtest.Run(t, b.app(), b.scenario())
		})
	}
}
