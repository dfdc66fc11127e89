package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStandby(t *testing.T) {
	t.Parallel()
	primary := Own(t)
	primary.Exec("CREATE TABLE ledger (amount int)")
	for amount := range 2 { // the standby of a promoted one, too
		standby := primary.Standby()
		primary.Exec("INSERT INTO ledger VALUES (1)")
		require.Error(t, execute(t.Context(), standby.server.url, nil, "INSERT INTO ledger VALUES (9)"), "it only follows")

		standby.Stop(Fast)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		require.Error(t, execute(ctx, primary.server.url, nil, "INSERT INTO ledger VALUES (1)"), "it waits for its standby")
		cancel()
		standby.Start()
		primary.AwaitStandby()

		primary.Stop(Immediate)
		standby.Promote()
		require.Equal(t, 2*(amount+1), ask[int](t, connect(t, standby.URL()), "SELECT count(*) FROM ledger"))
		require.NotEqual(t, primary.URL(), standby.URL())
		primary = standby
	}
}
