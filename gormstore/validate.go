package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// recordTables are the store's tables with the columns that this release needs.
var recordTables = map[string][]string{
	"idempotency_record": {"id", "scope", "owner", "fence", "state", "recovery", "method", "route", "hash_version",
		"command_hash", "created_at", "lease_until", "deadline_at", "expires_at", "purge_at", "status", "partial",
		"answer_encoding", "headers", "body", "realm"},
	"idempotency_setting":  {"name", "value"},
	"idempotency_step":     {"record_id", "name", "kind", "state", "fence", "started_at", "encoding", "result"},
	"idempotency_sighting": {"id", "scope", "hash_version", "command_hash", "seen_at", "purge_at"},
	"processed_message": {"consumer_group", "source", "message_id", "payload_hash", "processed_at", "published_at",
		"expires_at"},
	"processed_message_floor": {"consumer_group", "source", "published_at"},
	"idempotency_settlement": {"record_id", "settled_at", "settled_by", "reason", "before_fence", "before_state",
		"after_fence", "after_state", "after_status"},
}

// Validate implements [core.Validator]: the tables are there, and the server keeps what it has confirmed (F-2). One
// error names everything that is wrong.
func (s *Store) Validate(ctx context.Context) error {
	if err := errors.Join(inspector{s.pool, s.names}.server(ctx)...); err != nil {
		return fmt.Errorf("idem: gormstore: %w", err)
	}
	return nil
}

// inspector looks at the live server and schema. It changes nothing.
type inspector struct {
	pool  *sql.DB
	names *names
}

// server returns everything that is wrong with the server and the store's own tables.
func (i inspector) server(ctx context.Context) []error {
	errs := i.missingColumns(ctx)
	if i.names.dialect == postgres {
		return append(errs, i.postgres(ctx)...)
	}
	return append(errs, i.sqlite(ctx)...)
}

func (i inspector) missingColumns(ctx context.Context) []error {
	var errs []error
	for _, table := range slices.Sorted(maps.Keys(recordTables)) {
		there, err := i.ownColumns(ctx, table)
		switch {
		case err != nil:
			return append(errs, err)
		case len(there) == 0:
			errs = append(errs, fmt.Errorf("table %s is missing: run gormstore.Migrate", table))
			continue
		}
		for _, column := range recordTables[table] {
			if !slices.Contains(there, column) {
				errs = append(errs, fmt.Errorf("table %s has no column %s: run gormstore.Migrate", table, column))
			}
		}
	}
	return errs
}

// ownColumns lists the columns of one of the store's tables.
func (i inspector) ownColumns(ctx context.Context, table string) ([]string, error) {
	if i.names.dialect == sqlite {
		return i.columns(ctx, table)
	}
	schema, err := i.names.find(ctx, i.pool)
	if err != nil {
		return nil, err
	}
	return i.columns(ctx, schema+"."+table)
}

// columns lists the columns of a table, none if there is no such table.
func (i inspector) columns(ctx context.Context, table string) ([]string, error) {
	query := "SELECT name FROM pragma_table_info($1)"
	if i.names.dialect == postgres {
		query = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"
	}
	return i.texts(ctx, query, table)
}

// texts returns the one text column of a query.
func (i inspector) texts(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := i.pool.QueryContext(ctx, i.names.dialect.words.Replace(query), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var texts []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

func (i inspector) postgres(ctx context.Context) []error {
	var standby bool
	var version int
	var fsync, commit string
	err := i.pool.QueryRowContext(ctx, `SELECT pg_is_in_recovery(), current_setting('server_version_num')::int,
	current_setting('fsync'), current_setting('synchronous_commit')`).Scan(&standby, &version, &fsync, &commit)
	if err != nil {
		return []error{err}
	}
	var errs []error
	if standby {
		errs = append(errs, errors.New("the server is in recovery, a standby: connect to the primary"))
	}
	if version < 13_00_00 {
		errs = append(errs, fmt.Errorf("the server's version is %d: PostgreSQL 13 or later is needed", version/10000))
	}
	if fsync != "on" {
		errs = append(errs, errors.New("fsync is off: a crash of the server would forget money; set fsync=on"))
	}
	if commit == "off" {
		errs = append(errs, errors.New("synchronous_commit is off: a crash of the server would forget answers that were "+
			"given; set it to on, for the database or the role at least"))
	}
	schema, err := i.names.find(ctx, i.pool)
	if err != nil {
		return errs // missingColumns has said so
	}
	unlogged, err := i.texts(ctx, `SELECT relname FROM pg_class
WHERE relnamespace = to_regnamespace($1) AND relname IN ('idempotency_record', 'idempotency_step',
	'idempotency_settlement', 'processed_message', 'processed_message_floor') AND relpersistence <> 'p'`, schema)
	if err != nil {
		return append(errs, err)
	}
	for _, table := range unlogged {
		errs = append(errs, fmt.Errorf("table %s is UNLOGGED or temporary: a crash would empty it; ALTER TABLE %s SET LOGGED",
			table, table))
	}
	return errs
}

func (i inspector) sqlite(ctx context.Context) []error {
	var file, journal string
	var synchronous int
	if err := i.pool.QueryRowContext(ctx, mainFile).Scan(&file); err != nil {
		return []error{err}
	}
	if file == "" {
		return []error{errors.New("the database is in memory: its records end with the process; use a file")}
	}
	if err := i.pool.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
		return []error{err}
	}
	if err := i.pool.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return []error{err}
	}
	var errs []error
	if !strings.EqualFold(journal, "wal") {
		errs = append(errs, fmt.Errorf("journal_mode is %s: repeats would wait for a running attempt; add "+
			"_pragma=journal_mode(wal) to the address of the database", journal))
	}
	if synchronous < 2 {
		errs = append(errs, errors.New("synchronous is not FULL: a power failure would forget money; add "+
			"_pragma=synchronous(full) to the address of the database"))
	}
	return errs
}
