package gormstore_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

// What a first request on Park writes to the server's log. It does not depend on the machine. Full-page images are switched
// off: how many there are depends on when the server makes a checkpoint.
func TestFirstRequestWritesLittle(t *testing.T) {
	t.Parallel()
	url := pgtest.Own(t, "shared_preload_libraries=pg_stat_statements", "full_page_writes=off", "autovacuum=off").URL()
	setUp := openPostgres(t, url, 2)
	require.NoError(t, setUp.Exec("CREATE EXTENSION pg_stat_statements").Error)
	migrate(t, setUp)

	const clients = 8
	spend := func(t *testing.T, each, body int, work time.Duration) (records, written, hot float64) {
		t.Helper()
		execute(t, setUp, "TRUNCATE idempotency_record", "SELECT pg_stat_statements_reset(), pg_stat_reset()")
		db := openPostgres(t, url, clients)
		sendCommands(t, db, clients, each, body, work)
		pool := try(db.DB()).ok(t)
		require.NoError(t, pool.Close()) // the server's processes report their counts when they end
		n := float64(clients * each)
		var sums struct{ Records, Bytes, Calls, Hot float64 }
		require.NoError(t, setUp.Raw(`SELECT sum(wal_records) AS records, sum(wal_bytes) AS bytes, sum(calls) AS calls
FROM pg_stat_statements WHERE query LIKE '%idempotency_record%' AND query LIKE '%fence%' AND calls > 1`).Scan(&sums).Error)
		require.InDelta(t, 2*n, sums.Calls, 1, "a claim and a completion each")
		eventually(t, "the server has counted the updates", func() bool {
			var updates float64
			row := setUp.Raw("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_record'").Row()
			require.NoError(t, row.Scan(&updates, &sums.Hot))
			return updates >= n
		})
		return sums.Records / n, sums.Bytes / n, sums.Hot / n
	}

	t.Run("120 bytes", func(t *testing.T) {
		records, written, hot := spend(t, 500, 120, 0)
		t.Logf("%.2f records, %.0f bytes, %.3f HOT", records, written, hot)
		require.LessOrEqual(t, records, 5.5)
		require.LessOrEqual(t, written, 950.)
		require.GreaterOrEqual(t, hot, 0.95)
	})
	t.Run("1 KB", func(t *testing.T) {
		records, written, hot := spend(t, 250, 1024, 0)
		t.Logf("%.2f records, %.0f bytes, %.3f HOT", records, written, hot)
		require.LessOrEqual(t, records, 5.5)
		require.LessOrEqual(t, written, 950.+1024)
		require.GreaterOrEqual(t, hot, 0.95)
	})
	t.Run("handlers of a second", func(t *testing.T) { // others have filled the page of some rows meanwhile
		records, written, hot := spend(t, 250, 120, time.Second)
		t.Logf("%.2f records, %.0f bytes, %.3f HOT", records, written, hot)
		require.LessOrEqual(t, records, 8.)
		require.GreaterOrEqual(t, hot, 0.6)
	})
}

// sendCommands claims and completes. With work, a client has so many claims open as it would make in that time, which is
// taken to be a hundred.
func sendCommands(t *testing.T, db *gorm.DB, clients, each, body int, work time.Duration) {
	t.Helper()
	st := newStore(t, db)
	answer := paid()
	answer.Answer.Header.Set("Content-Type", "application/json")
	answer.Answer.Body = bytes.Repeat([]byte{'x'}, body)
	open := 0
	if work > 0 {
		open = 100
	}
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			var tickets []store.Ticket
			complete := func() error {
				t0 := tickets[0]
				tickets = tickets[1:]
				return st.Complete(t.Context(), t0, answer)
			}
			for range each {
				c := command(core.Park)
				c.Retention = store.DefaultRetention
				claimed, err := st.Claim(t.Context(), c)
				if err != nil {
					errs[i] = err
					return
				}
				tickets = append(tickets, claimed.Record.Ticket)
				if len(tickets) > open {
					if errs[i] = complete(); errs[i] != nil {
						return
					}
				}
			}
			for len(tickets) > 0 && errs[i] == nil {
				errs[i] = complete()
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}
