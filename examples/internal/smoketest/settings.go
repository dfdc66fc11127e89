package smoketest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
)

func settings(t *testing.T, program string) {
	for _, wrong := range []string{
		"LEASE=soon", "LEASE=10ms", "DEADLINE=-1s", "RETENTION=23h", "RETENTION=73h", "RETENTION=72", "UNSAFE_SIMULATOR=yes",
		"STALL=1ms", "ATTEMPTS=0",
		"DATABASE_URL=mysql://somewhere", "ADDR=nowhere",
	} {
		code, printed := apptest.Refused(t, program, t.TempDir(), wrong)
		require.Equal(t, 1, code, wrong)
		require.Equal(t, 1, strings.Count(printed, "\n"), printed)
		if name, _, _ := strings.Cut(wrong, "="); name != "ADDR" {
			require.Contains(t, printed, name)
		}
	}
	p := apptest.Start(t, program, t.TempDir(), "RETENTION=24h")
	require.Len(t, p.Tokens, 4)
	require.Equal(t, 0, p.Stop(t))
}

func oneProcess(t *testing.T, program string) {
	dir := t.TempDir()
	first := apptest.Start(t, program, dir)
	code, printed := apptest.Refused(t, program, dir)
	require.Equal(t, 1, code)
	require.Contains(t, printed, "in use by another process")
	require.Contains(t, printed, "stop the other one")
	require.Contains(t, printed, "DATABASE_URL")
	require.Equal(t, 0, first.Stop(t))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, file := range left { // the shop and the provider, and nothing else
		require.Equal(t, ".db", filepath.Ext(file.Name()), file.Name())
	}
	apptest.Start(t, program, dir)
}
