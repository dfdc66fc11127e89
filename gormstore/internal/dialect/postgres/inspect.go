package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// inspect takes three round trips, because a first claim waits for it.
func inspect(ctx context.Context, q dialect.Querier, schema string, need dialect.Rights, _ bool) []error {
	errs := server(ctx, q)
	if len(need) == 0 {
		return errs
	}
	tables := slices.Sorted(maps.Keys(need))
	list, needed := strings.Join(tables, ","), make([]string, len(tables))
	for n, table := range tables {
		needed[n] = need[table]
	}
	errs = append(errs, each(ctx, q, flaws, schema, list)...)
	return append(errs, each(ctx, q, missingRights, schema, list, strings.Join(needed, ";"))...)
}

const tableColumns = `SELECT t.name || '.' || a.attname FROM unnest(string_to_array($2, ',')) AS t (name)
JOIN pg_attribute a ON a.attrelid = to_regclass($1 || '.' || t.name) AND a.attnum > 0 AND NOT a.attisdropped`

const columns = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"

// serverSettings reads each setting as it is now, and as it will be in another session, because an app may have set it on
// one connection only.
const serverSettings = `SELECT pg_is_in_recovery(), current_setting('server_version_num')::int, current_setting('fsync'),
	(SELECT 'off' IN (s.setting, s.reset_val) FROM pg_settings s WHERE s.name = 'synchronous_commit'),
	(SELECT 'on' IN (s.setting, s.reset_val) FROM pg_settings s WHERE s.name = 'default_transaction_read_only')`

func server(ctx context.Context, q dialect.Querier) []error {
	var standby bool
	var version int
	var fsync string
	var forgets, readOnly bool
	err := q.QueryRowContext(ctx, serverSettings).Scan(&standby, &version, &fsync, &forgets, &readOnly)
	if err != nil {
		return []error{err}
	}
	var errs []error
	if standby {
		errs = append(errs, dialect.NoWritesError("the server is in recovery, a standby: connect to the primary"))
	}
	if version < 13_00_00 {
		errs = append(errs, fmt.Errorf("the server's version is %d: PostgreSQL 13 or later is needed", version/10000))
	}
	if fsync != "on" {
		errs = append(errs, errors.New("fsync is off: a crash of the server would lose money; set fsync=on"))
	}
	if forgets {
		errs = append(errs, errors.New("synchronous_commit is off: a crash of the server would lose answers that clients "+
			"have seen; set it to on, at least for the database or the role"))
	}
	if readOnly {
		errs = append(errs, dialect.NoWritesError("default_transaction_read_only is on: nothing could be recorded; connect to "+
			"the primary, or set it to off for the database or the role"))
	}
	return errs
}

// flaws lists why one of the tables $2 in the schema $1, or one of their partitions, may lose or hide what was
// confirmed: one text each.
const flaws = `WITH RECURSIVE part AS (SELECT to_regclass($1 || '.' || t.name)::oid AS oid
		FROM unnest(string_to_array($2, ',')) AS t (name)
	UNION SELECT i.inhrelid FROM pg_inherits i JOIN part p ON i.inhparent = p.oid)
SELECT 'table ' || c.relname || f.flaw FROM part JOIN pg_class c USING (oid) CROSS JOIN LATERAL (VALUES
	(c.relpersistence <> 'p', ' is UNLOGGED or temporary: a crash would empty it; ALTER TABLE ' || c.relname || ' SET LOGGED'),
	(c.relkind NOT IN ('r', 'p'), ' is no table of this database: nobody knows what it keeps after a crash'),
	(row_security_active(c.oid), ' hides rows from this role by row-level security: keys would be in flight for ever; '
		|| 'ALTER TABLE ' || c.relname || ' DISABLE ROW LEVEL SECURITY, or use a role with BYPASSRLS')
) AS f (is_there, flaw) WHERE f.is_there ORDER BY 1`

// missingRights lists the rights $3 on the tables $2 in the schema $1 that the role does not have.
const missingRights = `SELECT 'the role ' || current_user || ' lacks ' || n.need || ' on ' || t.name
FROM unnest(string_to_array($2, ','), string_to_array($3, ';')) AS t (name, rights)
JOIN pg_class c ON c.oid = to_regclass($1 || '.' || t.name)
CROSS JOIN LATERAL unnest(string_to_array(t.rights, ', ')) AS n (need)
WHERE NOT has_table_privilege(c.oid, n.need)`

// each makes an error of each text of a query.
func each(ctx context.Context, q dialect.Querier, query string, args ...any) (errs []error) {
	texts, err := dialect.Texts(ctx, q, query, args...)
	if err != nil {
		return []error{err}
	}
	for _, text := range texts {
		errs = append(errs, errors.New(text))
	}
	return errs
}
