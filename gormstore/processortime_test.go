package gormstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/pgtest"
)

// BenchmarkProcessorTime prints what each statement costs the server's process, messages, plan and commit included, beside
// plain statements, in turns in one run. Linux only: it reads /proc. Without fsync, whose time would hide the rest.
func BenchmarkProcessorTime(b *testing.B) {
	server := pgtest.Own(b, "fsync=off")
	db, err := gorm.Open(pgdriver.Open(server.URL()), &gorm.Config{Logger: logger.Discard})
	require.NoError(b, err)
	pool, err := db.DB()
	require.NoError(b, err)
	b.Cleanup(func() { _ = pool.Close() })
	require.NoError(b, Migrate(b.Context(), db))
	for _, statement := range []string{"CREATE TABLE plain_record (LIKE idempotency_record INCLUDING DEFAULTS) WITH (fillfactor = 70)",
		"ALTER TABLE plain_record ADD PRIMARY KEY (id)"} {
		require.NoError(b, db.Exec(statement).Error)
	}
	store, err := New(db)
	require.NoError(b, err)
	conn, err := pool.Conn(b.Context())
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	meter := processorTime{conn: conn, spent: map[string][]float64{}}
	require.NoError(b, conn.QueryRowContext(b.Context(), "SELECT pg_backend_pid()").Scan(&meter.pid))
	if _, err := meter.read(); err != nil {
		b.Skip("the processor time of another process is read from /proc, as Linux has it: ", err)
	}
	for turn := range b.N + 10 {
		if turn == 10 { // the server has its plans by now
			clear(meter.spent)
		}
		for _, name := range []string{"Park", "plain", "Rollback", "plain in a transaction"} {
			meter.turn(b, store, name)
		}
	}
	b.ReportMetric(0, "ns/op")
	var table strings.Builder
	for _, pair := range [][2]string{{"Park", "plain"}, {"Rollback", "plain in a transaction"}} {
		for _, step := range []string{"BEGIN", "claim", "SAVEPOINT", "answer", "COMMIT", "replay"} {
			ours, plain := meter.quartile(pair[0]+" "+step), meter.quartile(pair[1]+" "+step)
			if ours == 0 {
				continue
			}
			fmt.Fprintf(&table, "\n%-8s %-9s %6.1f us, plain %6.1f us", pair[0], step, ours, plain)
			if plain > 0 {
				b.ReportMetric(ours/plain, strings.ToLower(pair[0]+"-"+step)+"-of-plain")
			}
		}
	}
	if b.N > 1 { // not for the first look at how long it takes
		b.Log(table.String())
	}
}

// processorTime measures the server's process of one connection.
type processorTime struct {
	conn  *sql.Conn
	pid   int
	spent map[string][]float64 // in microseconds
}

// turn runs a first request, and a replay outside a transaction.
func (p *processorTime) turn(b *testing.B, store *Store, name string) {
	ctx := context.Background()
	c := core.Claim{ID: core.Scoping{}.RecordID(benchPrincipal, rand.Text()), Owner: core.Owner{1}, Method: "POST",
		Route: "/v1/payments", Recovery: core.Park, Hash: core.CommandHash{Version: 1}, Lease: core.DefaultLease,
		Deadline: core.DefaultDeadline, Retention: core.DefaultRetention}
	exec := func(step, text string, args ...any) {
		p.measure(b, name+" "+step, func() error { _, err := p.conn.ExecContext(ctx, text, args...); return err })
	}
	ours := func(step string, statement statement, args ...any) {
		text, err := store.statements.text(ctx, p.conn, statement)
		require.NoError(b, err)
		exec(step, text, args...)
	}
	headers := []byte(`{"Content-Type":["application/json"]}`)
	answer := append(ownedBy(core.Ticket{ID: c.ID, Owner: c.Owner, Fence: 1}), int64(201), false, headers, benchAnswer,
		c.Retention.Microseconds(), 2*c.Retention.Microseconds())
	now := time.Now()
	row := []any{c.ID[:], c.Scope[:], c.Owner[:], c.Method, c.Route, c.Hash.Sum[:], now, now.Add(c.Lease), now.Add(c.Deadline),
		c.Realm[:], sweepAfter(c)}
	plainAnswer := []any{c.ID[:], 201, headers, benchAnswer, now.Add(c.Retention), now.Add(2 * c.Retention)}
	switch name {
	case "Park":
		ours("claim", insertRecord, append(claimArgs(c), lockKey(c.ID), c.Traceparent)...)
		ours("answer", complete, answer...)
		ours("replay", lookFirst, c.ID[:])
	case "plain":
		exec("claim", plainInsert, row...)
		exec("answer", plainUpdate, plainAnswer...)
		exec("replay", plainSelect, c.ID[:])
	case "Rollback":
		exec("BEGIN", store.dialect.begin)
		ours("claim", claimKey, store.claimKeyArgs(c, &backend{idle: guardOf(c.Deadline)})...)
		exec("SAVEPOINT", setSavepoint)
		ours("answer", completeAsBegun, answer...)
		exec("COMMIT", "COMMIT")
	default:
		exec("BEGIN", "BEGIN")
		exec("claim", plainInsert, row...)
		exec("answer", plainUpdate, plainAnswer...)
		exec("COMMIT", "COMMIT")
	}
}

// measure runs a statement, and adds what it has cost.
func (p *processorTime) measure(b *testing.B, name string, run func() error) {
	before, err := p.read()
	require.NoError(b, err)
	require.NoError(b, run())
	after, err := p.read()
	require.NoError(b, err)
	p.spent[name] = append(p.spent[name], after-before)
}

// read waits until the process sleeps, and returns its processor time in microseconds. While a process runs, the kernel's
// count is behind.
func (p *processorTime) read() (float64, error) {
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
		if err != nil {
			return 0, err
		}
		if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "S") {
			continue
		}
		spent, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", p.pid))
		if err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(spent), " ")
		nanoseconds, err := strconv.ParseFloat(first, 64)
		return nanoseconds / 1000, err
	}
}

// quartile is the first quartile of a statement; 0 where it was not run.
func (p *processorTime) quartile(name string) float64 {
	if len(p.spent[name]) == 0 {
		return 0
	}
	return quickest(p.spent[name])
}
