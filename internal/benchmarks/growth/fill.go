package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core"
)

// contents says which records a table is filled with, from the oldest to the newest, as they lie in the table: first
// tombstones, then answers past retention, then unknown operations, then answers that can be replayed.
type contents struct {
	records                  int64
	tombstones, due, unknown int64
	retention, tombstone     time.Duration
	each                     time.Duration // between one record and the next
	older                    time.Duration // how much older tombstones are than that
	past                     time.Duration // how much older they are, and what is past retention, in addition
	newest                   time.Duration // how old the newest record is
}

const (
	perTombstone = 20 // one record in so many is a tombstone that a sweep drops
	perDue       = 10 // one in so many is past retention: a sweep makes it a tombstone
	perUnknown   = 50 // one in so many is unknown, up to maxUnknown
	maxUnknown   = 200
	fewest       = 1000

	retention = core.DefaultRetention
	tombstone = core.DefaultTombstone
	// principals share the records.
	principals = 100_000
)

// mixed is a table of n records with a backlog for the sweep. The answers that can be replayed are of the last 71.5 hours.
func mixed(n int64) contents {
	c := contents{records: n, tombstones: n / perTombstone, due: n / perDue, unknown: min(n/perUnknown, maxUnknown),
		retention: retention, tombstone: tombstone, older: tombstone, past: time.Hour,
		newest: 2 * time.Minute}
	c.each = ((retention - 30*time.Minute) / time.Duration(n-c.tombstones-c.due)).Truncate(time.Microsecond)
	return c
}

// steady is a table in which n records were made each day: those of the last day can be replayed, those of the day before
// are tombstones.
func steady(n int64, day time.Duration) contents {
	return contents{records: 2 * n, tombstones: n, retention: day, tombstone: day,
		each: (day / time.Duration(n)).Truncate(time.Microsecond)}
}

// liveFrom is the first record that can surely be replayed: it does not come due during the run.
func (c contents) liveFrom() int64 { return c.records / 4 }

// lastHour is how many of the newest records were made within an hour.
func (c contents) lastHour() int64 { return int64(time.Hour / c.each) }

// made is when record i was made, if the table was filled at filled. It is what generate says.
func (c contents) made(i int64, filled time.Time) time.Time {
	t := filled.Add(-time.Duration(c.records-i) * c.each)
	if i < c.tombstones {
		t = t.Add(-c.older)
	}
	if i < c.tombstones+c.due {
		t = t.Add(-c.past)
	}
	return t
}

// generate makes the records $1 to $2-1 of $3. The first $4 are tombstones, those before $5 are due, those before $6
// unknown. All times are in microseconds: $7 of the last record, $8 between one and the next, $9 and $10 what is older, $11
// retention, $12 tombstone. $13: ids begin with their time.
var generate = fmt.Sprintf(`INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route,
	hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, headers, body,
	sweep_after, sweep_from)
SELECT CASE WHEN $13 THEN substr(int8send(t.us / 1000), 3) || substr(h.hash, 7) ELSE h.hash END,
	sha256(int8send(i %% %d)), substr(sha256(int8send(i %% 7)), 1, 24), substr(h.hash, 9, 16), 1, s.state, 3, '%s', '%s', 1,
	h.hash, c.created, c.created + interval '30 s', c.created + interval '60 s',
	CASE WHEN s.state <> 3 THEN c.created + $11::bigint * interval '1 us' END,
	CASE WHEN s.state <> 3 THEN c.created + ($11::bigint + $12::bigint) * interval '1 us' END,
	CASE WHEN s.state = 3 THEN 0 ELSE %d END,
	CASE WHEN s.state = 2 THEN '%s'::bytea END,
	CASE WHEN s.state = 2 THEN convert_to(rpad('{"id":"pay_' || i || '","note":"', %d, '.') || '"}', 'UTF8') END,
	CASE s.state WHEN 2 THEN ceil($11::bigint / 1000000.)::int WHEN 4 THEN 0 END,
	c.created + CASE WHEN s.state = 4 THEN ($11::bigint + $12::bigint) * interval '1 us' ELSE interval '0' END
FROM generate_series($1::bigint, $2::bigint - 1) i,
	LATERAL (SELECT CASE WHEN i < $4::bigint THEN 4 WHEN i >= $5::bigint AND i < $6::bigint THEN 3 ELSE 2 END AS state) s,
	LATERAL (SELECT sha256(int8send(i)) AS hash OFFSET 0) h,
	LATERAL (SELECT $7::bigint - ($3::bigint - i) * $8::bigint - CASE WHEN i < $4::bigint THEN $9::bigint ELSE 0 END
		- CASE WHEN i < $5::bigint THEN $10::bigint ELSE 0 END AS us) t,
	LATERAL (SELECT timestamptz 'epoch' + t.us * interval '1 us' AS created) c`,
	principals, method, route, status, storedHeader, bodyBytes-len(bodyEnd))

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

// bodyOf is the answer of a generated record.
func bodyOf(i int64) string {
	begin := fmt.Sprintf(`{"id":"pay_%d","note":"`, i)
	return begin + strings.Repeat(".", bodyBytes-len(begin)-len(bodyEnd)) + bodyEnd
}

const (
	chunk  = 250_000 // records that one statement generates
	makers = 2       // at once
)

// fill generates records. It builds the indexes afterwards, which is faster and makes them compact. The pages are full, as
// answers fill them in the end.
func (d *database) fill(ctx context.Context, c contents) error {
	begun := time.Now()
	restore, err := d.dropIndexes(ctx)
	if err != nil {
		return err
	}
	var options *string
	err = d.ask(ctx, `SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE oid = 'idempotency_record'::regclass`,
		&options)
	if err != nil {
		return err
	}
	if err := d.exec(ctx, "ALTER TABLE idempotency_record SET (autovacuum_enabled = off, fillfactor = 100)"); err != nil {
		return err
	}
	restore = append(restore, "ALTER TABLE idempotency_record RESET (autovacuum_enabled, fillfactor)")
	if options != nil {
		restore = append(restore, "ALTER TABLE idempotency_record SET ("+*options+")")
	}
	d.contents, d.filled = c, time.Now().Add(-c.newest).Truncate(time.Microsecond)
	if err := d.generate(ctx); err != nil {
		return err
	}
	// The patrol has been here, as it would have been if the records had been made one by one.
	patrolled := fmt.Sprintf("INSERT INTO idempotency_setting VALUES ('patrol/limit', %[1]d), ('patrol/passed', %[1]d)",
		d.filled.UnixMicro())
	err = d.exec(ctx, append(restore, patrolled, "VACUUM ANALYZE idempotency_record", "CHECKPOINT")...)
	if err != nil {
		return err
	}
	if err := d.store.Validate(ctx); err != nil {
		return err
	}
	progress("%s: filled and vacuumed in %s", d.name, time.Since(begun).Round(time.Second))
	return nil
}

func (d *database) generate(ctx context.Context) error {
	c, us := d.contents, time.Duration.Microseconds
	var next, done atomic.Int64
	errs := make([]error, makers)
	var wg sync.WaitGroup
	for maker := range makers {
		wg.Go(func() {
			for errs[maker] == nil {
				from := next.Add(chunk) - chunk
				if from >= c.records {
					return
				}
				to := min(from+chunk, c.records)
				_, errs[maker] = d.pool.ExecContext(ctx, generate, from, to, c.records, c.tombstones, c.tombstones+c.due,
					c.tombstones+c.due+c.unknown, d.filled.UnixMicro(), us(c.each), us(c.older), us(c.past), us(c.retention),
					us(c.tombstone), d.keys.timed)
				if made := done.Add(to - from); made%(10*chunk) == 0 {
					progress("%s: %d of %d records", d.name, made, c.records)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
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
