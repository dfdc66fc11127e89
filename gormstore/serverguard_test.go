package gormstore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// The first message of a transaction guards it, also on a server that cannot look after its client, and however the server
// has planned the statement.
func TestGuardsOfATransaction(t *testing.T) {
	t.Parallel()
	for check, want := range map[int32]string{1: "500ms", 2: "0"} { // see Store.connectionCheck
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			own := onEach(t)["postgres"]
			own.pool.SetMaxOpenConns(1)
			own.connectionCheck.Store(check)
			for n := range 8 { // the first five are planned for their parameters
				tx, claimed, err := own.Begin(t.Context(), claimOf(byte(n), store.Rollback))
				require.NoError(t, err)
				require.True(t, claimed.Won)
				handle, _ := SQLTx(tx.Bind(t.Context()))
				var idle, client string
				require.NoError(t, handle.QueryRowContext(t.Context(), `SELECT current_setting('idle_in_transaction_session_timeout'),
					current_setting('client_connection_check_interval')`).Scan(&idle, &client))
				require.Equal(t, []string{"1min", want}, []string{idle, client}, fmt.Sprint(n))
				require.NoError(t, tx.Rollback())
			}
		})
	}
}
