package txn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// inspect looks at everything over one connection, or over another one where its server takes no writes.
func (d *Database) inspect(ctx context.Context, i Inspector, need Rights) error {
	return Retry(ctx, func() error {
		return d.onConn(ctx, func(own *sql.Conn) error {
			i.Q = own
			return i.all(ctx, need)
		})
	})
}

// Inspector looks at the live server and schema. It changes nothing.
type Inspector struct {
	Q          Querier
	Statements *Statements
	inUse      bool // lets a database in memory pass: it is not expected to last
}

// all looks at everything, and returns one error for all that is wrong.
func (i Inspector) all(ctx context.Context, need Rights) error {
	if err := errors.Join(i.Server(ctx, need)...); err != nil {
		return fmt.Errorf("idem: gormstore: %w", err)
	}
	return nil
}

// Server returns everything that is wrong with the server and the tables that are needed. On PostgreSQL it takes five round
// trips, because a first claim waits for it.
func (i Inspector) Server(ctx context.Context, need Rights) []error {
	tables := slices.Sorted(maps.Keys(need))
	if i.Statements.Dialect == SQLite {
		return append(i.missingColumns(ctx, "", tables), i.sqlite(ctx)...)
	}
	schema, err := i.Statements.FindSchema(ctx, i.Q)
	if err != nil {
		return append(i.postgres(ctx), err)
	}
	errs := append(i.missingColumns(ctx, schema, tables), i.postgres(ctx)...)
	list, needed := strings.Join(tables, ","), make([]string, len(tables))
	for n, table := range tables {
		needed[n] = need[table]
	}
	errs = append(errs, i.each(ctx, flaws, schema, list)...)
	return append(errs, i.each(ctx, missingRights, schema, list, strings.Join(needed, ";"))...)
}

// missingColumns looks for what gormstore.Migrate has to add to the library's tables.
func (i Inspector) missingColumns(ctx context.Context, schema string, tables []string) []error {
	there, err := i.ownColumns(ctx, schema, tables)
	if err != nil {
		return []error{err}
	}
	var errs []error
	for _, table := range tables {
		isOf := func(column string) bool { return strings.HasPrefix(column, table+".") }
		if !slices.ContainsFunc(there, isOf) {
			errs = append(errs, fmt.Errorf("table %s is missing: run gormstore.Migrate", table))
			continue
		}
		for _, column := range tableColumns[table] {
			if !slices.Contains(there, table+"."+column) {
				errs = append(errs, fmt.Errorf("table %s has no column %s: run gormstore.Migrate", table, column))
			}
		}
	}
	return errs
}

// ownColumns lists the columns of the library's tables, each behind the name of its table.
func (i Inspector) ownColumns(ctx context.Context, schema string, tables []string) (columns []string, err error) {
	if i.Statements.Dialect == Postgres {
		return i.Texts(ctx, `SELECT t.name || '.' || a.attname FROM unnest(string_to_array($2, ',')) AS t (name)
JOIN pg_attribute a ON a.attrelid = to_regclass($1 || '.' || t.name) AND a.attnum > 0 AND NOT a.attisdropped`,
			schema, strings.Join(tables, ","))
	}
	for _, table := range tables {
		there, err := i.Columns(ctx, table)
		if err != nil {
			return nil, err
		}
		for _, column := range there {
			columns = append(columns, table+"."+column)
		}
	}
	return columns, nil
}

// Columns lists the columns of a table, none if there is no such table.
func (i Inspector) Columns(ctx context.Context, table string) ([]string, error) {
	query := "SELECT name FROM pragma_table_info(?1)"
	if i.Statements.Dialect == Postgres {
		query = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"
	}
	return i.Texts(ctx, query, table)
}

// Texts returns the one text column of a query.
func (i Inspector) Texts(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := i.Q.QueryContext(ctx, query, args...)
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

// serverSettings reads each setting as it is now, and as it will be in another session, because an app may have set it on
// one connection only.
const serverSettings = `SELECT pg_is_in_recovery(), current_setting('server_version_num')::int, current_setting('fsync'),
	(SELECT 'off' IN (s.setting, s.reset_val) FROM pg_settings s WHERE s.name = 'synchronous_commit'),
	(SELECT 'on' IN (s.setting, s.reset_val) FROM pg_settings s WHERE s.name = 'default_transaction_read_only')`

func (i Inspector) postgres(ctx context.Context) []error {
	var standby bool
	var version int
	var fsync string
	var forgets, readOnly bool
	err := i.Q.QueryRowContext(ctx, serverSettings).Scan(&standby, &version, &fsync, &forgets, &readOnly)
	if err != nil {
		return []error{err}
	}
	var errs []error
	if standby {
		errs = append(errs, noWritesError("the server is in recovery, a standby: connect to the primary"))
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
		errs = append(errs, noWritesError("default_transaction_read_only is on: nothing could be recorded; connect to the "+
			"primary, or set it to off for the database or the role"))
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
func (i Inspector) each(ctx context.Context, query string, args ...any) (errs []error) {
	texts, err := i.Texts(ctx, query, args...)
	if err != nil {
		return []error{err}
	}
	for _, text := range texts {
		errs = append(errs, errors.New(text))
	}
	return errs
}
