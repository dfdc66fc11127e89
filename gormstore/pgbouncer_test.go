//go:build linux

package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/pgtest"
)

// throughPgBouncer starts a PgBouncer in transaction mode in front of a database, and returns the database's URL by way of it.
func throughPgBouncer(t *testing.T, databaseURL string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // Debian's place, which is not in everybody's path
		if _, err := os.Stat(program); err != nil {
			t.Skip("no PgBouncer: install Debian's package pgbouncer")
		}
	}
	target := try(url.Parse(databaseURL)).ok(t)
	password, _ := target.User.Password()
	port := try(pgtest.FreePort()).ok(t)

	directory := try(os.MkdirTemp("", "idem-pgbouncer-")).ok(t) //nolint:usetesting // nobody but its owner may look into t.TempDir
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	require.NoError(t, os.Chmod(directory, 0o755))
	users, config := filepath.Join(directory, "users.txt"), filepath.Join(directory, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", target.User.Username(), password), 0o644))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = 8
`, target.Hostname(), target.Port(), port, users), 0o644))
	args := []string{config}
	if os.Geteuid() == 0 {
		args = []string{"-u", "nobody", config}
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	target.Host = net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	eventually(t, "PgBouncer listens", func() bool {
		conn, err := net.Dial("tcp", target.Host)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return target.String()
}

// Segments behind PgBouncer in transaction mode, where each of them may be on another connection of the server, in every mode
// in which pgx neither prepares a statement for a session nor sends one in two round trips. describe_exec does the second:
// outside of a transaction its two halves may meet two servers.
//
// CONTRACT, F-2
func TestSegmentsBehindPgBouncer(t *testing.T) {
	databaseURL := migratedURL(t)
	direct := openPostgres(t, databaseURL, 2)
	bouncer := throughPgBouncer(t, databaseURL)
	effects := 0
	for _, mode := range []string{"simple_protocol", "exec", "cache_describe"} {
		t.Run(mode, func(t *testing.T) {
			a := newStepApp(t, newStore(t, openPostgres(t, bouncer+"&default_query_exec_mode="+mode, 4)))
			calls, fail := 0, context.DeadlineExceeded
			handle := func(ctx context.Context) error { return errors.Join(reserveCallBook(ctx, &calls), fail) }
			for n := range 3 {
				key := fmt.Sprint(mode, n)
				calls, fail = 0, context.DeadlineExceeded
				require.Equal(t, http.StatusInternalServerError, a.as(key, handle).Code)
				fail = nil
				w := a.as(key, handle)
				require.Equal(t, http.StatusCreated, w.Code, w.Body)
				require.Equal(t, "reused", a.as(key, handle).Header().Get("Idempotency-Result"))
				require.Equal(t, 1, calls, "its result was kept")
				effects += 2
				require.Equal(t, effects, countEffects(t, direct))
			}
		})
	}
}
