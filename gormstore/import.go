package gormstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core"
)

var _ core.Importer = (*Store)(nil)

// Import implements [core.Importer]: all records are added in one transaction.
func (s *Store) Import(ctx context.Context, records []core.Record) (added int, err error) {
	// In one order, so that two imports at once do not wait for each other in a circle.
	records = slices.SortedFunc(slices.Values(records), func(a, b core.Record) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	err = s.inTx(ctx, func(q querier) error {
		added = 0
		for _, rec := range records {
			args, err := s.importArgs(rec)
			if err != nil {
				return err
			}
			n, err := s.exec(ctx, q, importStatements[s.dialect], args...)
			if err != nil {
				return err
			}
			added += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return added, nil
}

func (s *Store) importArgs(rec core.Record) ([]any, error) {
	headers, err := encodeHeaders(rec.Answer.Header)
	if err != nil {
		return nil, err
	}
	args := []any{rec.ID[:], rec.Scope[:], rec.Owner[:], rec.Fence, int64(rec.Stored), int64(rec.Recovery), rec.Method,
		rec.Route, int64(rec.Hash.Version), rec.Hash.Sum[:], s.dialect.time(rec.CreatedAt), s.dialect.time(rec.LeaseUntil),
		s.dialect.time(rec.Deadline), s.dialect.time(rec.ExpiresAt), s.dialect.time(rec.PurgeAt), int64(rec.Answer.Status),
		rec.Answer.Partial, headers, rec.Answer.Body, rec.Realm[:]}
	if s.dialect == postgres {
		args = append(args, lockKey(rec.ID))
	}
	return args, nil
}

// time is a point in time as an argument; the zero time is NULL.
func (d *dialect) time(t time.Time) any {
	switch {
	case t.IsZero():
		return nil
	case d == postgres:
		return t
	default:
		return t.UnixMicro()
	}
}

const importColumns = `INSERT INTO {schema}.idempotency_record (id, scope, owner, fence, state, recovery, method, route,
	hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, headers, body, realm)
`

// importStatements add a record whose id is not there. On PostgreSQL an attempt that is under way holds the record's
// advisory lock: its key is left alone, instead of waited for.
var importStatements = map[*dialect]string{
	postgres: `WITH l AS MATERIALIZED (SELECT pg_catalog.pg_try_advisory_xact_lock($21::bigint) AS lock)
` + importColumns + `SELECT $1::bytea, $2::bytea, $3::bytea, $4::bigint, $5::smallint, $6::smallint, $7::text, $8::text,
	$9::smallint, $10::bytea, $11::timestamptz, $12::timestamptz, $13::timestamptz, $14::timestamptz, $15::timestamptz,
	$16::smallint, $17::boolean, $18::bytea, $19::bytea, $20::bytea FROM l WHERE l.lock
ON CONFLICT (id) DO NOTHING`,
	sqlite: importColumns + `VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT (id) DO NOTHING`,
}
