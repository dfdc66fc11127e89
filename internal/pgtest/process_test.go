package pgtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/internal/testhost"
)

// soon is how long the harness may take to clean up behind a killed process, on a busy machine.
const soon = 30 * time.Second

// The tests of this file start the test binary again, as `go test ./...` starts those of other packages. Such a child
// uses the shared server, prints the server's URL and stays until its standard input ends.
const childVariable = "IDEM_PGTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		testhost.RunFour()
		goleak.VerifyTestMain(m) // exits
	}
	server, err := sharedURL()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(server)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func TestProcessesShareOneServer(t *testing.T) {
	t.Parallel()
	temporary := newTemporary(t)
	// Both at once, where no server is yet: one starts it, the other waits for it.
	first, second := startChild(t, temporary), startChild(t, temporary)
	url := first.url(t)
	require.Equal(t, url, second.url(t))

	first.end(t)
	third := startChild(t, temporary)
	require.Equal(t, url, third.url(t), "who starts the server may be the first to go")
	second.end(t)
	third.end(t)
	fourth := startChild(t, temporary)
	require.Equal(t, url, fourth.url(t), "the next binary of a run finds the server still there")
	require.NoError(t, execute(t.Context(), parse(t, url), nil, "SELECT"))

	fourth.end(t)
	requireGone(t, temporary, url)
}

func TestKilledProcessesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	temporary := newTemporary(t)
	first, second := startChild(t, temporary), startChild(t, temporary)
	url := first.url(t)
	require.Equal(t, url, second.url(t))

	first.kill()
	second.kill()
	requireGone(t, temporary, url)
}

func TestProcessKilledWhileItStartsTheServer(t *testing.T) {
	t.Parallel()
	temporary := newTemporary(t)
	first := startChild(t, temporary)
	require.Eventually(t, func() bool { return exists(t, temporary, "*", "shared-*", "data") }, soon, time.Millisecond)
	first.kill()

	second := startChild(t, temporary)
	url := second.url(t)
	require.NoError(t, execute(t.Context(), parse(t, url), nil, "SELECT"))
	second.end(t)
	requireGone(t, temporary, url)
}

func TestServerEndsWithItsSupervisor(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a process that its parent is gone")
	}
	t.Parallel()
	server := Own(t).server
	require.NoError(t, server.supervisor.Process.Kill())
	require.Eventually(t, func() bool {
		return !exists(t, server.directory, "data", "postmaster.pid")
	}, soon, 10*time.Millisecond)
}

func TestSweep(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"left behind", "left behind before it was used", "used", "supervised"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, name, "data"), 0o700))
	}
	for name, locked := range map[string]bool{
		"left behind/users":      false,
		"left behind/supervisor": false,
		"used/users":             true,
		"used/supervisor":        false,
		"supervised/users":       false,
		"supervised/supervisor":  true,
	} {
		file, err := os.Create(filepath.Join(root, name))
		require.NoError(t, err)
		defer func() { _ = file.Close() }()
		if locked {
			require.NoError(t, lockShared(file))
		}
	}
	sweep(root)
	require.False(t, exists(t, root, "left behind*"))
	require.True(t, exists(t, root, "used", "data"))
	require.True(t, exists(t, root, "supervised", "data"))
}

func TestRootOfAnotherUser(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	require.NoError(t, os.Symlink(t.TempDir(), rootPath()))
	_, err := lockRoot()
	require.ErrorContains(t, err, "not a directory of this user")
}

// child is another test binary that uses the shared server.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
}

// startChild starts a child that shares its server with those below the same temporary directory.
func startChild(t *testing.T, temporary string) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "TEST_DATABASE_URL=", "TMPDIR="+temporary, childVariable+"=1")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}
	t.Cleanup(c.kill)
	return c
}

// url waits until the child has its server.
func (c *child) url(t *testing.T) string {
	t.Helper()
	var url string
	_, err := fmt.Fscanln(c.stdout, &url)
	require.NoError(t, err)
	require.Equal(t, "postgres", parse(t, url).Scheme, url)
	return url
}

// end lets the child exit by itself.
func (c *child) end(t *testing.T) {
	t.Helper()
	require.NoError(t, c.stdin.Close())
	require.NoError(t, c.cmd.Wait())
}

// kill ends the child by SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// newTemporary makes a temporary directory that the server's account can enter, unlike those of the testing package.
func newTemporary(t *testing.T) string {
	t.Helper()
	Require(t)
	directory, err := os.MkdirTemp("", "pgtest-") //nolint:usetesting // see above
	require.NoError(t, err)
	require.NoError(t, os.Chmod(directory, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(directory)) })
	return directory
}

// requireGone waits until neither the server nor any file of it is left.
func requireGone(t *testing.T, temporary, url string) {
	t.Helper()
	require.Eventually(t, func() bool { return !exists(t, temporary, "*") }, soon, 10*time.Millisecond)
	require.Error(t, execute(t.Context(), parse(t, url), nil, "SELECT"), "the server should be gone with its files")
}

// exists tells whether a file matches the pattern.
func exists(t *testing.T, pattern ...string) bool {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join(pattern...))
	require.NoError(t, err)
	return len(matches) > 0
}
