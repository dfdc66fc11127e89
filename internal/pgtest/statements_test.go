package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestStatements(t *testing.T) {
	cluster := Own(t)
	cluster.Exec("CREATE DATABASE mine", "CREATE DATABASE other")
	mine, other := *cluster.server.url, *cluster.server.url
	mine.Path, other.Path = "/mine", "/other"

	before := connect(t, mine.String())
	statements := Statements(t, mine.String())
	Statements(t, other.String()) // logged as well, and not to be mixed up
	_, err := before.Exec(t.Context(), "SELECT 'a connection opened before'")
	require.NoError(t, err)

	conn := connect(t, mine.String())
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT $1::int, 'extended',\n\t'two\nlines'", 1)
	require.NoError(t, err)
	_, err = connect(t, other.String()).Exec(t.Context(), "SELECT 'another database'")
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1/$1::int", pgx.QueryExecModeSimpleProtocol, 0)
	require.Error(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, conn.Ping(t.Context()))

	require.Equal(t, []string{
		"begin",
		"SELECT $1::int, 'extended',\n\t'two\nlines'",
		"SELECT 1/ '0' ::int",
		"rollback",
	}, statements())
	require.Empty(t, statements(), "each call starts where the one before ended")

	_, err = conn.Exec(t.Context(), "SELECT 2")
	require.NoError(t, err)
	require.Equal(t, []string{"SELECT 2"}, statements())
}

func TestStatementsOnTheSharedServer(t *testing.T) {
	databaseURL := URL(t)
	statements := Statements(t, databaseURL)
	_, err := connect(t, databaseURL).Exec(t.Context(), "SELECT 1")
	require.NoError(t, err)
	require.Equal(t, []string{"SELECT 1"}, statements())
}
