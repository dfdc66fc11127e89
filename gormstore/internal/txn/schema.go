package txn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect/postgres"
)

// Statements name the schema of their tables. The library finds the schema once. So a search path that an app has left on
// a connection, or a temporary table of the same name, has no effect. If another schema of the database has the tables
// too, the library finds none, and does nothing until gormstore.InSchema says which (F-6).

// find returns the statements. q is asked for the schema if it is not known yet.
func (s *Statements) find(ctx context.Context, q Querier) (*statementTexts, error) {
	if known := s.known.Load(); known != nil {
		return known, nil
	}
	found, err := SearchPath(ctx, q)
	if err != nil {
		return nil, err
	}
	schema, err := found.Home()
	if err == nil && schema == "" {
		err = errNoTables
	}
	if err != nil {
		return nil, err
	}
	return s.in(Quote(schema))
}

// FindSchema returns the schema as it stands in statements.
func (s *Statements) FindSchema(ctx context.Context, q Querier) (string, error) {
	known, err := s.find(ctx, q)
	if err != nil {
		return "", err
	}
	return known.schema, nil
}

// Quote is a name as an identifier.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

var errNoTables = errors.New("idem: gormstore: the table idempotency_record is in no schema of the search path that is " +
	"configured for this role and database (ALTER ROLE, ALTER DATABASE, the connection's parameters; a SET on a " +
	"connection does not count): run gormstore.Migrate, or name the schema with gormstore.InSchema")

// onPath is a schema of the search path, or another one that has the tables.
type onPath struct {
	Schema string
	tables bool // the schema has the tables
	listed bool // the schema is on the search path
}

// Schemas are those of a search path, and others that have the tables.
type Schemas []onPath

// SearchPath reads the schemas of the search path as it is configured: as RESET would set it, whatever search path or role
// the app has set on the connection. The other schemas of the database that have the tables follow.
func SearchPath(ctx context.Context, q Querier) (Schemas, error) {
	rows, err := q.QueryContext(ctx, postgres.FromWriter(configuredPath))
	if err != nil {
		return nil, named(err, Call{Name: "searchPath"})
	}
	defer func() { _ = rows.Close() }()
	var found Schemas
	for rows.Next() {
		var p onPath
		var place sql.NullInt64
		if err := rows.Scan(&p.Schema, &p.tables, &place); err != nil {
			return nil, err
		}
		p.listed = place.Valid
		if !slices.ContainsFunc(found, func(known onPath) bool { return known.Schema == p.Schema }) {
			found = append(found, p)
		}
	}
	return found, named(rows.Err(), Call{Name: "searchPath"})
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

// Home is the schema that has the tables; "" if none has. Tables in another schema are an error, on the search path or not:
// those of home may be new and empty, for instance after the app's tables were moved, and every key would be free there.
func (all Schemas) Home() (schema string, err error) {
	var listed, elsewhere []string
	for _, place := range all {
		switch {
		case !place.tables:
		case place.listed:
			listed = append(listed, place.Schema)
		default:
			elsewhere = append(elsewhere, place.Schema+" (not on the search path)")
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
