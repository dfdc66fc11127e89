package gormstore_test

import (
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

// dumpHead begins a dump: when it was written follows. A dump that is loaded moves its times by what has passed since.
const dumpHead = "-- Written at "

// dump writes the store's tables as plain SQL: the migrations of this release, and the rows.
func dump(t *testing.T, db *gorm.DB, file string) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%s%s by: go test ./gormstore -run TestGolden -update\n\n", dumpHead, time.Now().UTC().Format(time.RFC3339Nano))
	text.WriteString("CREATE TABLE idempotency_migration (name varchar(255) NOT NULL PRIMARY KEY);\n")
	migrations := try(fs.Glob(gormstore.Migrations(), db.Name()+"/*.sql")).ok(t)
	require.NotEmpty(t, migrations)
	for _, migration := range migrations {
		statements := try(fs.ReadFile(gormstore.Migrations(), migration)).ok(t)
		text.Write(statements)
	}
	pool := try(db.DB()).ok(t)
	for _, table := range storeTables(t, db) {
		for _, row := range quotedRows(t, pool, db.Name(), table) {
			fmt.Fprintf(&text, "INSERT INTO %s (%s) VALUES (%s);\n",
				table, strings.Join(columnsOf(t, pool, table), ", "), strings.Join(row, ", "))
		}
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
}

// load executes a dump in an empty database, and moves all times as if it had been written now.
func load(t *testing.T, db *gorm.DB, file string) {
	t.Helper()
	text := try(os.ReadFile(file)).ok(t)
	head, found := strings.CutPrefix(string(text), dumpHead)
	require.True(t, found)
	head, _, _ = strings.Cut(head, " ")
	written := try(time.Parse(time.RFC3339Nano, head)).ok(t)
	pool := try(db.DB()).ok(t)
	require.NoError(t, err2(pool.ExecContext(t.Context(), string(text))))

	passed := time.Since(written).Microseconds()
	for _, table := range storeTables(t, db) {
		for _, column := range columnsOf(t, pool, table) {
			if strings.HasSuffix(column, "_at") || strings.HasSuffix(column, "_until") {
				require.NoError(t, db.Exec("UPDATE "+table+" SET "+column+" = "+column+" + ?", passed).Error)
			}
		}
	}
}

// storeTables are the store's tables in the database.
func storeTables(t *testing.T, db *gorm.DB) (names []string) {
	t.Helper()
	from := "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'"
	if db.Name() == "sqlite" {
		from = "SELECT name FROM sqlite_master WHERE type = 'table'"
	}
	require.NoError(t, db.Raw("SELECT name FROM ("+from+") AS found "+
		"WHERE name LIKE 'idempotency%' OR name LIKE 'processed%' ORDER BY name").Scan(&names).Error)
	require.NotEmpty(t, names)
	return names
}

func columnsOf(t *testing.T, pool *sql.DB, table string) []string {
	t.Helper()
	rows, err := pool.QueryContext(t.Context(), "SELECT * FROM "+table+" LIMIT 0")
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	columns := try(rows.Columns()).ok(t)
	require.NoError(t, rows.Err())
	return columns
}

// quotedRows are the rows of a table, each value as an SQL literal.
func quotedRows(t *testing.T, pool *sql.DB, dialect, table string) (quoted [][]string) {
	t.Helper()
	columns := columnsOf(t, pool, table)
	expressions := make([]string, len(columns))
	for i, column := range columns {
		expressions[i] = "quote_nullable(" + column + "::text)"
		if dialect == "sqlite" {
			expressions[i] = "quote(" + column + ")"
		}
	}
	rows, err := pool.QueryContext(t.Context(), "SELECT "+strings.Join(expressions, ", ")+" FROM "+table+" ORDER BY 1")
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		row := make([]string, len(columns))
		targets := make([]any, len(columns))
		for i := range row {
			targets[i] = &row[i]
		}
		require.NoError(t, rows.Scan(targets...))
		quoted = append(quoted, row)
	}
	require.NoError(t, rows.Err())
	return quoted
}
