package pgxpipe_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/pgxpipe"
	"github.com/auth19/idem/internal/pgtest"
)

// connection is a fresh one, for which pgx has prepared nothing yet.
func connection(t *testing.T, mode string) *sql.Conn {
	t.Helper()
	pool, err := sql.Open("pgx", pgtest.URL(t)+"&default_query_exec_mode="+mode)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	conn, err := pool.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(ctx context.Context, conn *sql.Conn, statements ...gormstore.PipelineStatement) (succeeded int, err error) {
	raw := conn.Raw(func(connection any) error {
		succeeded, err = pgxpipe.New().Send(ctx, connection, statements)
		return nil
	})
	return succeeded, errors.Join(raw, err)
}

func text(text string) gormstore.PipelineStatement { return gormstore.PipelineStatement{Text: text} }

func sqlState(t *testing.T, err error) string {
	t.Helper()
	e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	require.True(t, ok, "%v", err)
	return e.SQLState()
}

// The statements behind one that fails are not run, and the connection can be used afterwards, in all modes of pgx.
func TestSend(t *testing.T) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			conn := connection(t, mode)
			ctx := t.Context()
			var n int64
			var name sql.NullString
			var when time.Time
			succeeded, err := send(ctx, conn, text("BEGIN"), text("CREATE TABLE rows (n int)"), text("COMMIT"),
				gormstore.PipelineStatement{Text: "SELECT $1::bigint, NULL::text, now()", Args: []any{int64(7)},
					Row: []any{&n, &name, &when}})
			require.NoError(t, err)
			require.Equal(t, 4, succeeded)
			require.EqualValues(t, 7, n)
			require.False(t, name.Valid)
			require.WithinDuration(t, time.Now(), when, time.Hour)

			succeeded, err = send(ctx, conn, text("BEGIN"), text("SAVEPOINT here"), text("INSERT INTO rows VALUES (1)"),
				text("SELECT 1 / (n - n) FROM rows"), text("COMMIT"))
			require.Equal(t, "22012", sqlState(t, err))
			require.Equal(t, 3, succeeded)

			succeeded, err = send(ctx, conn, text("ROLLBACK TO SAVEPOINT here"), text("INSERT INTO rows VALUES (2)"), text("COMMIT"))
			require.NoError(t, err, "what pgx has not prepared yet goes behind the savepoint")
			require.Equal(t, 3, succeeded)
			require.NoError(t, conn.QueryRowContext(ctx, "SELECT sum(n) FROM rows").Scan(&n))
			require.EqualValues(t, 2, n)

			succeeded, err = send(ctx, conn, gormstore.PipelineStatement{Text: "SELECT n FROM rows WHERE n = 1", Row: []any{&n}})
			require.ErrorIs(t, err, sql.ErrNoRows)
			require.Zero(t, succeeded)

			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err = send(short, conn, text("BEGIN"), text("SELECT pg_sleep(30)"), text("COMMIT"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Error(t, conn.PingContext(ctx), "the connection is closed")
		})
	}
}

// A connection of another driver, or of a wrapper, is left alone.
func TestSendKnowsItsDriver(t *testing.T) {
	succeeded, err := pgxpipe.New().Send(t.Context(), struct{}{}, []gormstore.PipelineStatement{text("SELECT 1")})
	require.ErrorIs(t, err, gormstore.ErrNotPipelined)
	require.Zero(t, succeeded)
}
