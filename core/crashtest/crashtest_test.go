package crashtest_test

import (
	"log"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core/crashtest"
)

func TestMain(m *testing.M) {
	if keys := os.Getenv(roleVariable); keys != "" {
		log.Fatal(serveApp(keys))
	}
	goleak.VerifyTestMain(m)
}

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

// The settings of the app's URL reach the server as they are.
func TestPostgresKeepsTheSettings(t *testing.T) {
	gates := crashtest.NewGates()
	defer gates.Close()
	url, err := gates.Postgres("postgres://app:secret@db.example/shop?default_transaction_isolation=repeatable%20read")
	require.NoError(t, err)
	require.Contains(t, url, "repeatable%20read", "pgx reads a plus sign as one since v5.11")
}
