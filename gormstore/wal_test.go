package gormstore_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// What a first request on Park writes to the server's log. It does not depend on the machine. The answer moves the record from
// the index of open ones to that of due ones, so that no UPDATE is HOT. Full-page images are switched off: how many there are
// depends on when the server makes a checkpoint.
func TestFirstRequestWritesLittle(t *testing.T) {
	t.Parallel()
	url := pgtest.Own(t, "shared_preload_libraries=pg_stat_statements", "full_page_writes=off", "autovacuum=off").URL()
	setUp := openPostgres(t, url, 2)
	require.NoError(t, setUp.Exec("CREATE EXTENSION pg_stat_statements").Error)
	migrate(t, setUp)

	const clients = 8
	spend := func(t *testing.T, each, body, open int) (records, written float64) {
		t.Helper()
		db := openPostgres(t, url, clients)
		st := newStore(t, db)
		execute(t, setUp, "TRUNCATE idempotency_record", "SELECT pg_stat_statements_reset(), pg_stat_reset()")
		sendCommands(t, st, clients, each, body, open)
		pool := try(db.DB()).ok(t)
		require.NoError(t, pool.Close()) // the server's processes report their counts when they end
		n := float64(clients * each)
		var sums struct{ Records, Bytes, Calls float64 }
		require.NoError(t, setUp.Raw(`SELECT sum(wal_records) AS records, sum(wal_bytes) AS bytes, sum(calls) AS calls
FROM pg_stat_statements WHERE query LIKE '%idempotency_record%' AND query LIKE '%fence%' AND calls > 1`).Scan(&sums).Error)
		require.InDelta(t, 2*n, sums.Calls, 1, "a claim and a completion each")
		return sums.Records / n, sums.Bytes / n
	}

	for name, c := range map[string]struct {
		each, body, open int
		records, written float64
	}{
		"120 bytes": {250, 120, 0, 8.5, 1250},
		"1 KB":      {250, 1024, 0, 8.5, 1250 + 1024},
		// Each client has as many claims open as it would make in that time, which is taken to be a hundred: others have
		// filled the page of some rows meanwhile.
		"handlers of a second": {250, 120, 100, 9.5, 1e9},
	} {
		t.Run(name, func(t *testing.T) {
			records, written := spend(t, c.each, c.body, c.open)
			t.Logf("%.2f records, %.0f bytes", records, written)
			require.LessOrEqual(t, records, c.records)
			require.LessOrEqual(t, written, c.written)
		})
	}
}

// sendCommands claims and completes; each client keeps so many claims open.
func sendCommands(t *testing.T, st *gormstore.Store, clients, each, body, open int) {
	t.Helper()
	answer := paid()
	answer.Answer.Header.Set("Content-Type", "application/json")
	answer.Answer.Body = bytes.Repeat([]byte{'x'}, body)
	for _, err := range atOnce(clients, func(int) error {
		var tickets []store.Ticket
		for n := 0; n < each || len(tickets) > 0; n++ {
			if n < each {
				c := command(core.Park)
				claimed, err := st.Claim(t.Context(), c)
				if err != nil {
					return err
				}
				tickets = append(tickets, claimed.Record.Ticket)
			}
			if len(tickets) > open || n >= each {
				if err := st.End(t.Context(), tickets[0], store.Ending{State: store.Completed, Answer: answer}); err != nil {
					return err
				}
				tickets = tickets[1:]
			}
		}
		return nil
	}) {
		require.NoError(t, err)
	}
}
