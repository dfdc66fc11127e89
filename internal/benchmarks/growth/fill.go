package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core"
)

// Record i of n is i/n of the way from the oldest to the newest, and they lie in the table in about that order.
const (
	perTombstone = 20 // one in so many, the oldest, is a tombstone that a sweep drops
	perDue       = 10 // one in so many, the next older, is past retention: a sweep makes it a tombstone
	perOpen      = 50 // one in so many, the newest, is unknown, up to maxOpen
	maxOpen      = 200
	fewest       = 1000

	retention = core.DefaultRetention
	tombstone = core.DefaultTombstone
	// principals share the records.
	principals = 100_000
)

// layout says where the tombstones end, where the records begin that are not due, and where the unknown ones.
type layout func(n int64) (tombstones, live, unknown int64)

// mixed is a table with a backlog for the sweep.
func mixed(n int64) (int64, int64, int64) {
	return n / perTombstone, n/perTombstone + n/perDue, liveTo(n)
}

// answers has only records that can be replayed, tombstones none, and halves as many of the one as of the other.
func answers(n int64) (int64, int64, int64)    { return 0, 0, n }
func tombstones(n int64) (int64, int64, int64) { return n, n, n }
func halves(n int64) (int64, int64, int64)     { return n / 2, n / 2, n }

// liveFrom is the first record of a mixed table that is replayed for sure: some way off those that come due meanwhile.
func liveFrom(n int64) int64 { return n / 4 }

// liveTo is behind the last one: from there on they are unknown.
func liveTo(n int64) int64 { return n - openOf(n) }

func openOf(n int64) int64 { return min(n/perOpen, maxOpen) }

// generate makes the records $1 to $2-1 of $3. The first $4 are tombstones, those before $5 are due, those from $6 on
// unknown. $7 microseconds lie between one and the next, and an hour more between those that are due and the others.
var generate = fmt.Sprintf(`INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route,
	hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, headers, body)
SELECT sha256(int8send(i)), sha256(int8send(i %% %d)), substr(sha256(int8send(i %% 7)), 1, 24),
	substr(sha256(int8send(-i)), 1, 16), 1, s.state, 3, '%s', '%s', 1,
	sha256(int8send(i + (1::bigint << 40))), t.created, t.created + interval '30 s', t.created + interval '60 s',
	CASE WHEN s.state <> 3 THEN t.created + interval '%d s' END, CASE WHEN s.state <> 3 THEN t.created + interval '%d s' END,
	CASE WHEN s.state = 3 THEN 0 ELSE %d END,
	CASE WHEN s.state = 2 THEN '%s'::bytea END,
	CASE WHEN s.state = 2 THEN convert_to(rpad('{"id":"pay_' || i || '","note":"', %d, '.') || '"}', 'UTF8') END
FROM generate_series($1::bigint, $2::bigint - 1) i,
	LATERAL (SELECT CASE WHEN i < $4::bigint THEN 4 WHEN i >= $6::bigint THEN 3 ELSE 2 END AS state) s,
	LATERAL (SELECT now() - interval '2 min' - ($3::bigint - i) * $7::float8 * interval '1 microsecond'
		- CASE WHEN i < $4::bigint THEN interval '%d s' ELSE interval '0' END
		- CASE WHEN i < $5::bigint THEN interval '1 h' ELSE interval '0' END AS created) t`,
	principals, method, route, int(retention.Seconds()), int((retention + tombstone).Seconds()), status, storedHeader,
	bodyBytes-len(bodyEnd), int(tombstone.Seconds()))

// What a record is made of.
const (
	method       = "POST"
	route        = "/v1/payments"
	status       = 201
	contentType  = "application/json"
	storedHeader = `{"Content-Type":["` + contentType + `"]}`
	bodyBytes    = 120
	bodyEnd      = `"}`
)

// idOf is the id of a generated record.
func idOf(i int64) core.ID { return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i))) }

// bodyOf is its answer.
func bodyOf(i int64) string {
	begin := fmt.Sprintf(`{"id":"pay_%d","note":"`, i)
	return begin + strings.Repeat(".", bodyBytes-len(begin)-len(bodyEnd)) + bodyEnd
}

const (
	chunk  = 250_000 // records that one statement generates
	makers = 2       // at once
)

// fill generates n records. The indexes are made anew afterwards, which is faster, and leaves them as they are best.
func (d *database) fill(ctx context.Context, n int64, where layout) error {
	begun := time.Now()
	restore, err := d.dropIndexes(ctx)
	if err != nil {
		return err
	}
	if err := d.exec(ctx, "ALTER TABLE idempotency_record SET (autovacuum_enabled = off)"); err != nil {
		return err
	}
	dead, live, unknown := where(n)
	each := float64((retention - 30*time.Minute).Microseconds()) / float64(max(n-live, 1))
	var next, done atomic.Int64
	errs := make([]error, makers)
	var wg sync.WaitGroup
	for maker := range makers {
		wg.Go(func() {
			for errs[maker] == nil {
				from := next.Add(chunk) - chunk
				if from >= n {
					return
				}
				to := min(from+chunk, n)
				_, errs[maker] = d.pool.ExecContext(ctx, generate, from, to, n, dead, live, unknown, each)
				progress("%s: %d of %d records", d.name, done.Add(to-from), n)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	err = d.exec(ctx, append(restore, "ALTER TABLE idempotency_record RESET (autovacuum_enabled)",
		"VACUUM ANALYZE idempotency_record", "CHECKPOINT")...)
	if err != nil {
		return err
	}
	if err := d.store.Validate(ctx); err != nil {
		return err
	}
	d.records = n
	progress("%s: filled and vacuumed in %s", d.name, time.Since(begun).Round(time.Second))
	return nil
}

// dropIndexes returns the statements that make them again.
func (d *database) dropIndexes(ctx context.Context) (restore []string, err error) {
	rows, err := d.pool.QueryContext(ctx, `SELECT c.relname, i.indisprimary, pg_get_indexdef(i.indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'idempotency_record'::regclass`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var drop []string
	for rows.Next() {
		var name, definition string
		var primary bool
		if err := rows.Scan(&name, &primary, &definition); err != nil {
			return nil, err
		}
		if primary {
			drop = append(drop, "ALTER TABLE idempotency_record DROP CONSTRAINT "+name)
			definition = "ALTER TABLE idempotency_record ADD CONSTRAINT " + name + " PRIMARY KEY (id)"
		} else {
			drop = append(drop, "DROP INDEX "+name)
		}
		restore = append(restore, definition)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return restore, d.exec(ctx, drop...)
}
