package pgproxy_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/internal/pgproxy"
	"github.com/auth19/idem/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// Each fault at an INSERT, alone and in front of a COMMIT: what the client hears, and whether the row is there.
func TestFaults(t *testing.T) {
	url := pgtest.URL(t)
	direct := connect(t, url)
	_, err := direct.Exec(t.Context(), "CREATE TABLE effects (name text)")
	require.NoError(t, err)
	proxy, err := pgproxy.New(url)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)

	const insert = "INSERT INTO effects VALUES ($1)"
	for _, fault := range append(pgproxy.Faults, pgproxy.Pass) {
		arrives := fault <= pgproxy.Slow || fault == pgproxy.LoseAnswer || fault == pgproxy.Late || fault == pgproxy.SwallowAnswer
		for name, commit := range map[string]bool{"insert": false, "commit": true} {
			t.Run(fault.String()+" at "+name, func(t *testing.T) {
				_, err := direct.Exec(t.Context(), "TRUNCATE effects")
				require.NoError(t, err)
				conn := connect(t, proxy.URL)
				var struck atomic.Bool
				proxy.Set(func(turn pgproxy.Turn) pgproxy.Fault {
					if !turn.Cancel && len(turn.SQL) > 0 && (turn.SQL[0] == insert && !commit || pgproxy.IsCommit(turn.SQL[0])) {
						struck.Store(true)
						return fault
					}
					return pgproxy.Pass
				})
				defer proxy.Set(nil)
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				if commit {
					_, err = conn.Exec(ctx, "BEGIN")
					require.NoError(t, err)
				}
				_, err = conn.Exec(ctx, insert, name)
				if commit {
					require.NoError(t, err)
					_, err = conn.Exec(ctx, "commit")
				}
				require.True(t, struck.Load())
				var refused *pgconn.PgError
				switch fault {
				case pgproxy.Pass, pgproxy.Slow:
					require.NoError(t, err)
				case pgproxy.Conflict, pgproxy.Fatal:
					require.ErrorAs(t, err, &refused)
					require.Equal(t, map[pgproxy.Fault]string{pgproxy.Conflict: "40001", pgproxy.Fatal: "57P01"}[fault], refused.Code)
					require.Equal(t, fault == pgproxy.Fatal, conn.IsClosed())
				default:
					require.Error(t, err)
					require.True(t, conn.IsClosed())
				}
				rows := func() (n int) {
					require.NoError(t, direct.QueryRow(t.Context(), "SELECT count(*) FROM effects").Scan(&n))
					return n
				}
				if arrives {
					require.Eventually(t, func() bool { return rows() == 1 }, 5*time.Second, 10*time.Millisecond)
				} else {
					time.Sleep(2 * pgproxy.Delay)
					require.Zero(t, rows())
				}
			})
		}
	}
}
