package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/auth19/idem/examples/internal/contract"
	"github.com/auth19/idem/examples/internal/smoketest"
	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/testhost"
)

func TestMain(m *testing.M) {
	testhost.RunFour()
	goleak.VerifyTestMain(m)
}

// TestApp tests the app as a process. What does not depend on the framework is tested once: the process, its database and
// its settings here, the crashes on Echo.
func TestApp(t *testing.T) {
	program := apptest.Build(t, ".")
	t.Run("contract", func(t *testing.T) { contract.OnSQLite(t, program) })
	t.Run("contract on MariaDB", func(t *testing.T) { contract.OnMariaDB(t, program) })
	t.Run("commands", func(t *testing.T) { smoketest.Commands(t, program) })
	t.Run("demo", func(t *testing.T) { smoketest.Demo(t, program) })
	t.Run("sign-in", func(t *testing.T) { smoketest.SignIn(t, program) })
	t.Run("process", func(t *testing.T) { smoketest.Processes(t, program) })
}
