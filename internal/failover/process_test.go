//go:build linux

package main

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcesses(t *testing.T) {
	r, err := newRoom()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(r.directory)) })

	// A server that is killed, with the processes that it has started.
	p, err := r.start("server", "/bin/sh", "-c", "sleep 1000 & sleep 1001 & echo ready; wait")
	require.NoError(t, err)
	require.NoError(t, await(t.Context(), "it is ready", func() bool { return p.log() == "ready\n" }))
	children, err := childrenOf(p.cmd.Process.Pid)
	require.NoError(t, err)
	require.Len(t, children, 2)
	require.Contains(t, title(children[0]), "sleep 100")
	p.kill()
	require.True(t, p.hasEnded())
	there := slices.Clone(children)
	require.NoError(t, awaitEnd(children...), "they were killed with it")
	require.Equal(t, there, children)
	require.NoError(t, sendSignal(syscall.SIGKILL, children...), "that they have ended is no error")
	require.ErrorContains(t, sendSignal(0, 0), "is no process of ours")
	p.kill() // once more does no harm

	// What still runs at the end.
	p, err = r.launch("other", exec.Command("sleep", "1000"))
	require.NoError(t, err)
	require.False(t, p.hasEnded())
	r.killAll()
	require.True(t, p.hasEnded())
	require.Empty(t, r.alive)
}

func TestFilesOfARoom(t *testing.T) {
	r, err := newRoom()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(r.directory)) })
	first, err := r.port()
	require.NoError(t, err)
	second, err := r.port()
	require.NoError(t, err)
	require.NotEqual(t, first, second)

	path, err := r.write("users.txt", "pgbouncer_users.ini", "secret")
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "\"app\" \"secret\"\n", string(text))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())
}
