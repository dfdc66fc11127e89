package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
)

// frameworks have an example app each: examples/gin and examples/echo.
var frameworks = []string{"gin", "echo"}

// onEachApp runs a test on both example apps.
func onEachApp(t *testing.T, test func(t *testing.T, framework string)) {
	for _, framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			test(t, framework)
		})
	}
}

// startApp starts an example app on a new SQLite file, with env ("NAME=value"). It is killed when the test ends.
func startApp(t *testing.T, framework string, env ...string) *apptest.Process {
	t.Helper()
	program, err := programOf[framework]()
	require.NoError(t, err)
	return apptest.Start(t, program, t.TempDir(), env...)
}

// programOf has the programs of the example apps. Each is built once for all tests.
var programOf = map[string]func() (string, error){
	"gin":  sync.OnceValues(func() (string, error) { return build("gin") }),
	"echo": sync.OnceValues(func() (string, error) { return build("echo") }),
}

// builds is the folder of the built programs. TestMain removes it.
var builds = filepath.Join(os.TempDir(), fmt.Sprint("idem-browser-", os.Getpid()))

func build(framework string) (string, error) {
	program := filepath.Join(builds, framework)
	output, err := exec.Command("go", "build", "-o", program, "github.com/auth19/idem/examples/"+framework).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build examples/%s: %w\n%s", framework, err, output)
	}
	return program, nil
}
