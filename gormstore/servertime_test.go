package gormstore

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/pgtest"
)

// plainStatements are what a first request and a replay would be without a lease, a lock, a floor, a clock to be checked and
// settings to be kept: on a table with the same columns, and its primary key alone.
const (
	plainInsert = `INSERT INTO plain_record (id, scope, owner, fence, state, recovery, method, route, hash_version, command_hash,
	created_at, lease_until, deadline_at, realm, timed, sweep_from, sweep_after)
VALUES ($1, $2, $3, 1, 1, 3, $4, $5, 1, $6, $7, $8, $9, $10, false, $7, $11) ON CONFLICT (id) DO NOTHING`
	plainUpdate = `UPDATE plain_record SET state = 2, status = $2, partial = false, headers = $3, body = $4, expires_at = $5,
	purge_at = $6 WHERE id = $1`
	plainSelect = `SELECT id, scope, realm, owner, fence, state, recovery, method, route, hash_version, command_hash, created_at,
	lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, attempts, timed
FROM plain_record WHERE id = $1`
)

// BenchmarkServerTime compares the time that the server spends on the statements of Park with that of plain statements, in
// turns in one run. of-plain-first and of-plain-replay are the ratios that count.
func BenchmarkServerTime(b *testing.B) {
	url := pgtest.Own(b, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_utility=off").URL()
	db, err := gorm.Open(pgdriver.Open(url), &gorm.Config{Logger: logger.Discard})
	require.NoError(b, err)
	pool, err := db.DB()
	require.NoError(b, err)
	b.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(2)
	require.NoError(b, Migrate(b.Context(), db))
	for _, statement := range []string{"CREATE EXTENSION pg_stat_statements", "CREATE TABLE plain_record (LIKE idempotency_record " +
		"INCLUDING DEFAULTS) WITH (fillfactor = 70)", "ALTER TABLE plain_record ADD PRIMARY KEY (id)"} {
		require.NoError(b, db.Exec(statement).Error)
	}
	store, err := New(db)
	require.NoError(b, err)
	ctx := context.Background()
	headers := []byte(`{"Content-Type":["application/json"]}`)
	spent := func(statements string) (each float64) { // the server's time since the last call, in microseconds
		require.NoError(b, pool.QueryRowContext(ctx, `SELECT sum(total_exec_time) * 1000 FROM pg_stat_statements
WHERE query LIKE '%' || $1 || '%' AND query NOT LIKE '%pg_stat_statements%'`, statements).Scan(&each))
		_, err := pool.ExecContext(ctx, "SELECT pg_stat_statements_reset()")
		require.NoError(b, err)
		return each / benchTurn
	}
	var first, plainFirst, replay, plainReplay []float64
	for turn := range b.N + 1 {
		claims := make([]core.Claim, benchTurn)
		for i := range claims {
			claims[i] = core.Claim{ID: core.Scoping{}.RecordID(benchPrincipal, rand.Text()), Owner: core.Owner{1}, Method: "POST",
				Route: "/v1/payments", Recovery: core.Park, Hash: core.CommandHash{Version: 1}, Lease: core.DefaultLease,
				Deadline: core.DefaultDeadline, Retention: core.DefaultRetention}
		}
		for _, c := range claims {
			claimed, err := store.Claim(ctx, c)
			require.NoError(b, err)
			require.NoError(b, store.Complete(ctx, claimed.Record.Ticket, core.Completion{
				Answer:    core.Answer{Status: 201, Header: http.Header{"Content-Type": {"application/json"}}, Body: benchAnswer},
				Retention: core.DefaultRetention, Tombstone: core.DefaultTombstone}))
		}
		first = append(first, spent("idempotency_record"))
		for _, c := range claims {
			now := time.Now()
			_, err := pool.ExecContext(ctx, plainInsert, c.ID[:], c.Scope[:], c.Owner[:], c.Method, c.Route, c.Hash.Sum[:], now,
				now.Add(c.Lease), now.Add(c.Deadline), c.Realm[:], sweepAfter(c))
			require.NoError(b, err)
			_, err = pool.ExecContext(ctx, plainUpdate, c.ID[:], 201, headers, benchAnswer, now.Add(c.Retention),
				now.Add(2*c.Retention))
			require.NoError(b, err)
		}
		plainFirst = append(plainFirst, spent("plain_record"))
		for _, c := range claims {
			c.Owner = core.Owner{2}
			claimed, err := store.Claim(ctx, c)
			require.NoError(b, err)
			require.Equal(b, core.Completed, claimed.Record.State())
		}
		replay = append(replay, spent("idempotency_record"))
		for _, c := range claims {
			read, err := pool.ExecContext(ctx, plainSelect, c.ID[:])
			require.NoError(b, err)
			n, err := read.RowsAffected()
			require.NoError(b, err)
			require.EqualValues(b, 1, n)
		}
		plainReplay = append(plainReplay, spent("plain_record"))
		if turn == 0 { // the server has its plans by now
			first, plainFirst, replay, plainReplay = nil, nil, nil, nil
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(quickest(first), "first-us")
	b.ReportMetric(quickest(replay), "replay-us")
	b.ReportMetric(quickest(first)/quickest(plainFirst), "of-plain-first")
	b.ReportMetric(quickest(replay)/quickest(plainReplay), "of-plain-replay")
}

// benchTurn is how many commands a turn has.
const benchTurn = 200

// quickest is the first quartile of the turns: others on the machine only make a turn slower.
func quickest(turns []float64) float64 {
	slices.Sort(turns)
	return turns[len(turns)/4]
}
