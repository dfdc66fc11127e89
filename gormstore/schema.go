package gormstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Statements name the schema of their tables. The store finds the schema once. So a search path that an app has left on a
// connection, or a temporary table of the same name, has no effect (F-6).

// find returns the statements. q is asked for the schema if it is not known yet.
func (s *statements) find(ctx context.Context, q querier) (*statementTexts, error) {
	if known := s.known.Load(); known != nil {
		return known, nil
	}
	found, err := searchPath(ctx, q)
	if err != nil {
		return nil, err
	}
	schema, err := found.home()
	if err == nil && schema == "" {
		err = errNoTables
	}
	if err != nil {
		return nil, err
	}
	return s.in(quote(schema))
}

// findSchema returns the schema as it stands in statements.
func (s *statements) findSchema(ctx context.Context, q querier) (string, error) {
	known, err := s.find(ctx, q)
	if err != nil {
		return "", err
	}
	return known.schema, nil
}

// quote is a name as an identifier.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

var errNoTables = errors.New("idem: gormstore: the table idempotency_record is in no schema of the search path that is " +
	"configured for this role and database (ALTER ROLE, ALTER DATABASE, the connection's parameters; a SET on a " +
	"connection does not count): run gormstore.Migrate, or name the schema with gormstore.InSchema")

// onPath is a schema of the search path.
type onPath struct {
	schema string
	tables bool // the schema has the tables
}

type schemas []onPath

// searchPath reads the schemas of the search path as it is configured: as RESET would set it, whatever search path or role
// the app has set on the connection.
func searchPath(ctx context.Context, q querier) (schemas, error) {
	rows, err := q.QueryContext(ctx, configuredPath)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var found schemas
	for rows.Next() {
		var p onPath
		if err := rows.Scan(&p.schema, &p.tables); err != nil {
			return nil, err
		}
		if !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	return found, rows.Err()
}

// A word of the path is quoted, or ends at a comma or a space.
const configuredPath = `SELECT n.nspname::text, c.oid IS NOT NULL
FROM pg_catalog.pg_settings s
CROSS JOIN LATERAL pg_catalog.regexp_matches(s.reset_val, '"((?:[^"]|"")+)"|([^",[:space:]]+)', 'g')
	WITH ORDINALITY AS p (word, place)
JOIN pg_catalog.pg_namespace n ON n.nspname = CASE
	WHEN '$user' IN (p.word[1], p.word[2]) THEN session_user
	ELSE coalesce(pg_catalog.replace(p.word[1], '""', '"'), pg_catalog.lower(p.word[2])) END
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'idempotency_record'
WHERE s.name = 'search_path' AND n.nspname NOT LIKE 'pg\_%' AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
ORDER BY p.place`

// home is the schema that has the tables; "" if none has. If two schemas have them, it is an error: the tables in one of
// them may be empty, and every key would be free there.
func (all schemas) home() (schema string, err error) {
	for _, place := range all {
		switch {
		case !place.tables:
		case schema == "":
			schema = place.schema
		default:
			return "", fmt.Errorf("idem: gormstore: the table idempotency_record is in two schemas of the search path, %s and "+
				"%s: drop the one that is not used, or name the other with gormstore.InSchema", schema, place.schema)
		}
	}
	return schema, nil
}
