// Package main_test runs the shop of examples/echo on Echo v5. Its main and its handlers are those of examples/echo, with
// other import paths and a pointer to the context. Only what renders errors is written again.
package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/examples/internal/contract"
	"github.com/auth19/idem/internal/testhost"
)

func TestMain(m *testing.M) {
	testhost.RunFour()
	goleak.VerifyTestMain(m)
}

// What is not of the framework is tested with the other apps.
func TestApp(t *testing.T) {
	contract.Payments(t, build(t))
}

// build builds the app. The files of examples/echo are laid over this folder.
func build(t *testing.T) string {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	temporary, v5 := t.TempDir(), strings.NewReplacer(
		"github.com/labstack/echo/v4", "github.com/labstack/echo/v5",
		"github.com/auth19/idem/echoidem", "github.com/auth19/idem/echoidem/v5",
		"c echo.Context", "c *echo.Context",
	)
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for _, name := range []string{"main.go", "handlers.go", "demo.go"} {
		source, err := os.ReadFile(filepath.Join("..", "echo", name))
		require.NoError(t, err)
		file := filepath.Join(temporary, name)
		require.NoError(t, os.WriteFile(file, []byte(v5.Replace(string(source))), 0o600))
		overlay.Replace[filepath.Join(here, name)] = file
	}
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	file, program := filepath.Join(temporary, "overlay.json"), filepath.Join(temporary, "app")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	output, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "shop", "-overlay", file, "-o", program, ".").
		CombinedOutput()
	require.NoError(t, err, string(output))
	return program
}
