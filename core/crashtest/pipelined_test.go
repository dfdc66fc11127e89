package crashtest_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/crashtest"
	"github.com/auth19/idem/internal/pgtest"
)

// TestPipelinedStatements shows that statements of one round trip are events of their own, and that a crash between two of
// them leaves what the server does with the first alone.
func TestPipelinedStatements(t *testing.T) {
	url := pgtest.URL(t)
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close(t.Context())) })
	_, err = admin.Exec(t.Context(), "CREATE TABLE rows (n int)")
	require.NoError(t, err)

	events := []string{"BEGIN", "INSERT INTO rows VALUES ($1)", "COMMIT"}
	for event := range events {
		for _, after := range []bool{false, true} {
			at := crashtest.Point{Event: event, After: after}
			t.Run(at.String()+" "+events[event], func(t *testing.T) {
				g := crashtest.NewGates()
				t.Cleanup(g.Close)
				gated, err := g.Postgres(url)
				require.NoError(t, err)
				conn, err := pgx.Connect(t.Context(), gated)
				require.NoError(t, err)
				t.Cleanup(func() { _ = conn.Close(t.Context()) })
				send := func() error {
					var batch pgx.Batch
					batch.Queue(events[0])
					batch.Queue(events[1], 1)
					batch.Queue(events[2])
					return conn.SendBatch(t.Context(), &batch).Close()
				}
				require.NoError(t, send())
				require.Equal(t, events, g.Events())
				var before, now int
				require.NoError(t, admin.QueryRow(t.Context(), "SELECT count(*) FROM rows").Scan(&before))

				fault := g.Strike(at)
				outcome := make(chan error, 1)
				go func() { outcome <- send() }()
				<-fault.Reached
				g.Kill()
				require.Error(t, <-outcome)
				want := before
				if at == (crashtest.Point{Event: 2, After: true}) {
					want++
				}
				require.EventuallyWithT(t, func(c *assert.CollectT) {
					var backends int
					query := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
					assert.NoError(c, admin.QueryRow(t.Context(), query).Scan(&backends))
					assert.Zero(c, backends)
				}, 10*time.Second, 5*time.Millisecond)
				require.NoError(t, admin.QueryRow(t.Context(), "SELECT count(*) FROM rows").Scan(&now))
				require.Equal(t, want, now)
			})
		}
	}
}
