package gormstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/auth19/idem/core"
)

// Import implements [core.Importer]: all records are added in one transaction.
func (s *Store) Import(ctx context.Context, records []core.Record) (done core.Imported, err error) {
	// In one order, so that two imports at once do not wait for each other in a circle.
	records = slices.SortedFunc(slices.Values(records), func(a, b core.Record) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	err = s.inTx(ctx, func(q querier) error {
		done = core.Imported{}
		for _, rec := range records {
			if err := s.importOne(ctx, q, rec, &done); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return core.Imported{}, err
	}
	return done, nil
}

func (s *Store) importOne(ctx context.Context, q querier, rec core.Record, done *core.Imported) error {
	args, err := s.importArgs(rec)
	if err != nil {
		return err
	}
	var fence int64
	err = s.queryRow(ctx, q, importStatements[s.dialect], args...).Scan(&fence)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil // it is left
	case err != nil:
		return err
	case fence == rec.Fence:
		done.Added++
		return nil
	}
	done.Replaced++
	_, err = s.exec(ctx, q, dropSteps, rec.ID[:])
	return err
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

const importColumns = `INSERT INTO {schema}.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route,
	hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, headers, body,
	realm)
`

// replaceFree gives a free record's place to the imported one. Its fence is above that of the record before, and so above
// the imported one's own.
const replaceFree = `
ON CONFLICT (id) DO UPDATE SET scope = excluded.scope, realm = excluded.realm, owner = excluded.owner, fence = r.fence + 1,
	state = excluded.state, recovery = excluded.recovery, method = excluded.method, route = excluded.route,
	hash_version = excluded.hash_version, command_hash = excluded.command_hash, created_at = excluded.created_at,
	lease_until = excluded.lease_until, deadline_at = excluded.deadline_at, expires_at = excluded.expires_at,
	purge_at = excluded.purge_at, status = excluded.status, partial = excluded.partial, answer_encoding = 1,
	headers = excluded.headers, body = excluded.body
WHERE ` + isFree + `
RETURNING fence`

// importStatements add a record whose id is not there, or free. They return the fence of the record that was written. On
// PostgreSQL an attempt that is under way holds the record's
// advisory lock: its key is left alone, instead of waited for.
var importStatements = map[*dialect]string{
	postgres: `WITH l AS MATERIALIZED (SELECT pg_catalog.pg_try_advisory_xact_lock($21::bigint) AS lock)
` + importColumns + `SELECT $1::bytea, $2::bytea, $3::bytea, $4::bigint, $5::smallint, $6::smallint, $7::text, $8::text,
	$9::smallint, $10::bytea, $11::timestamptz, $12::timestamptz, $13::timestamptz, $14::timestamptz, $15::timestamptz,
	$16::smallint, $17::boolean, $18::bytea, $19::bytea, $20::bytea FROM l WHERE l.lock` + replaceFree,
	sqlite: importColumns + `VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
	$20)` + replaceFree,
}
