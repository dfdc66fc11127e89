package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	// What the packages in testdata import: go mod tidy does not look there. Echo v5 and its adapter come from the workspace.
	_ "github.com/gin-gonic/gin"
	_ "github.com/go-chi/chi/v5"
	_ "github.com/google/uuid"
	_ "github.com/labstack/echo/v4"
	_ "gorm.io/gorm"

	_ "github.com/auth19/idem/core/httpidem"
	_ "github.com/auth19/idem/echoidem"
	_ "github.com/auth19/idem/ginidem"
	_ "github.com/auth19/idem/gormstore"
)

var (
	finding = regexp.MustCompile(`^(?:vet: )?(\S+\.go):(\d+):\d+: (.*)$`)
	want    = regexp.MustCompile("// want `([^`]*)`")
)

// TestChecks runs the tool as users run it, and compares what it finds with the comments in testdata: what is wanted in a line
// is found there, and nothing else.
func TestChecks(t *testing.T) {
	found := vet(t, "./testdata/mounted", "./testdata/repo", "./testdata/echoapp", "./testdata/echo5app", "./testdata/netapp",
		"./testdata/chiapp", "./testdata/client")
	files, err := filepath.Glob("testdata/*/*.go")
	require.NoError(t, err)
	require.Len(t, files, 7)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, line := range strings.Split(string(source), "\n") {
			at := file + ":" + strconv.Itoa(i+1)
			if wanted := want.FindStringSubmatch(line); wanted != nil {
				require.Regexp(t, wanted[1], found[at], at)
				delete(found, at)
			}
		}
	}
	require.Empty(t, found, "found, but not wanted")
}

// TestExampleApps runs the tool on the apps that users copy. They have no finding.
func TestExampleApps(t *testing.T) {
	require.Empty(t, vet(t, "../../examples/gin", "../../examples/echo", "../../examples/client", "../../examples/echov5",
		"../../examples/observed", "../../examples/worker", "../../examples/adopt/..."))
}

// vet returns the findings in packages by file and line.
func vet(t *testing.T, packages ...string) map[string]string {
	tool := filepath.Join(t.TempDir(), "idemvet")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", tool, ".").CombinedOutput()
	require.NoError(t, err, string(output))

	cmd := exec.CommandContext(t.Context(), "go", append([]string{"vet", "-vettool=" + tool}, packages...)...)
	output, err = cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	found := map[string]string{}
	for line := range bytes.Lines(output) {
		line := strings.TrimSuffix(string(line), "\n")
		if strings.HasPrefix(line, "# ") {
			continue
		}
		parts := finding.FindStringSubmatch(line)
		require.NotNil(t, parts, "the tool failed: %s", output)
		found[filepath.Clean(parts[1])+":"+parts[2]] += parts[3]
	}
	return found
}
