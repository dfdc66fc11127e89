package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// findSchema returns the schema as it stands in statements.
func findSchema(ctx context.Context, q dialect.Querier) (string, error) {
	found, err := searchPath(ctx, q)
	if err != nil {
		return "", err
	}
	schema, err := found.home()
	if err == nil && schema == "" {
		err = errNoTables
	}
	if err != nil {
		return "", err
	}
	return dialect.Quote(schema), nil
}

var errNoTables = dialect.SchemaError("idem: gormstore: the table idempotency_record is in no schema of the search path " +
	"that is configured for this role and database (ALTER ROLE, ALTER DATABASE, the connection's parameters; a SET on a " +
	"connection does not count): run gormstore.Migrate, or name the schema with gormstore.InSchema")

// onPath is a schema of the search path, or another one that has the tables.
type onPath struct {
	schema string
	tables bool // the schema has the tables
	listed bool // the schema is on the search path
}

// schemas are those of a search path, and others that have the tables.
type schemas []onPath

// searchPath reads the schemas of the search path as it is configured: as RESET would set it, whatever search path or role
// the app has set on the connection. The other schemas of the database that have the tables follow.
func searchPath(ctx context.Context, q dialect.Querier) (schemas, error) {
	rows, err := q.QueryContext(ctx, fromWriter(configuredPath))
	if err != nil {
		return nil, fmt.Errorf("searchPath: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var found schemas
	for rows.Next() {
		var p onPath
		var entry sql.NullInt64
		if err := rows.Scan(&p.schema, &p.tables, &entry); err != nil {
			return nil, err
		}
		p.listed = entry.Valid
		if !slices.ContainsFunc(found, func(known onPath) bool { return known.schema == p.schema }) {
			found = append(found, p)
		}
	}
	return found, rows.Err()
}

// A word of the path is quoted, or ends at a comma or a space.
const configuredPath = `SELECT n.nspname::text, c.oid IS NOT NULL, p.place
FROM pg_catalog.pg_settings s
CROSS JOIN LATERAL pg_catalog.regexp_matches(s.reset_val, '"((?:[^"]|"")+)"|([^",[:space:]]+)', 'g')
	WITH ORDINALITY AS p (word, place)
JOIN pg_catalog.pg_namespace n ON n.nspname = CASE
	WHEN '$user' IN (p.word[1], p.word[2]) THEN session_user
	ELSE coalesce(pg_catalog.replace(p.word[1], '""', '"'), pg_catalog.lower(p.word[2])) END
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'idempotency_record'
WHERE s.name = 'search_path' AND n.nspname NOT LIKE 'pg\_%' AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
UNION ALL SELECT n.nspname::text, true, NULL
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = 'idempotency_record' AND c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\_%'
ORDER BY 3 NULLS LAST, 1`

// home is the schema that has the tables; "" if none has. Tables in another schema are an error, on the search path or not:
// those of home may be new and empty, for instance after the app's tables were moved, and every key would be free there.
func (all schemas) home() (schema string, err error) {
	var listed, elsewhere []string
	for _, entry := range all {
		switch {
		case !entry.tables:
		case entry.listed:
			listed = append(listed, entry.schema)
		default:
			elsewhere = append(elsewhere, entry.schema+" (not on the search path)")
		}
	}
	switch places := slices.Concat(listed, elsewhere); {
	case len(places) > 1:
		return "", fmt.Errorf("idem: gormstore: the table idempotency_record is in several schemas of this database, %s: in one "+
			"that is empty every key would be free. Name the schema whose records count with gormstore.InSchema, for New and "+
			"for Migrate, or drop the others", strings.Join(places, " and "))
	case len(elsewhere) == 1:
		return "", fmt.Errorf("idem: gormstore: the table idempotency_record is in the schema %s: new tables in another schema "+
			"would be empty, and every key free. Move the library's tables with your own (ALTER TABLE ... SET SCHEMA), or name "+
			"the schema with gormstore.InSchema, for New and for Migrate", elsewhere[0])
	case len(listed) == 1:
		return listed[0], nil
	}
	return "", nil
}

// beforeMigrating takes a lock, and sets the search path.
func beforeMigrating(ctx context.Context, q dialect.Querier, schema string) error {
	const lock = "SELECT pg_catalog.pg_advisory_xact_lock($1::bigint)"
	if _, err := q.ExecContext(ctx, lock, int64(dialect.LockSpace)); err != nil {
		return fmt.Errorf("wait for the other instances: %w", err)
	}
	return into(ctx, q, schema)
}

// into sets the search path of the transaction to one schema: the given one, or the one that has the tables, or the first
// one of the search path.
func into(ctx context.Context, q dialect.Querier, schema string) error {
	if schema == "" {
		found, err := searchPath(ctx, q)
		if err == nil && len(found) == 0 {
			err = errors.New("no schema of the search path is there for this role: create one, or name one with " +
				"gormstore.InSchema")
		}
		if err == nil {
			schema, err = found.home()
		}
		if err != nil {
			return err
		}
		if schema == "" {
			schema = found[0].schema // none has the tables, so all are on the path
		}
	}
	// pg_temp is named, as the last schema. Otherwise PostgreSQL would search it first, and find a temporary table.
	_, err := q.ExecContext(ctx, "SELECT pg_catalog.set_config('search_path', $1, true)", dialect.Quote(schema)+", pg_temp")
	return err
}
