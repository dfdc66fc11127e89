// Package mysql is what MariaDB has of its own. Package suite tests it, in a module of its own: the driver is no requirement
// of this one.
package mysql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"regexp"
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/sqltext"
)

//go:embed statements
var statements embed.FS

// Dialect is MariaDB.
var Dialect = &dialect.Dialect{
	Name: "mysql", Migrations: "mysql", Connections: 2, Text: sqltext.MySQL, Begin: begin,
	Driver:       "github.com/go-sql-driver/mysql",
	BeginOwn:     []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", begin},
	BeginDurably: []string{begin}, BeginTest: []string{begin}, BeginRenewals: []string{begin},
	Isolation: sql.LevelReadCommitted, Statements: []fs.FS{statements}, Finish: finish,
	Reading: readCommitted, WriteIn: readCommitted, LockTries: 2, Bind: bind, Proves: proves,
	Class: class, OfCommand: ofCommand, OfStatement: func(error) bool { return false },
	IsThere: isThere, IsDuplicate: isThere, IsNull: isNull,
	TakesWrites: "@@read_only = 0", TableColumns: tableColumns, Columns: columns,
	UniqueIndexes: uniqueIndexes, EarlyTriggers: earlyTriggers, Table: func(name, _ string) string { return name },
	InSchema: quote, FindSchema: findSchema, BeforeMigrating: beforeMigrating, Inspect: inspect,
	NewProcess: newServer, Apart: inGalera,
}

// readCommitted: what a transaction reads behind a lock must be as new as the lock.
var readCommitted = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

const begin = "START TRANSACTION"

// quote is a name as an identifier.
func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// findSchema is the database of the connection's address.
func findSchema(ctx context.Context, q dialect.Querier) (string, error) {
	var there sql.NullString
	const find = `SELECT t.table_schema FROM information_schema.tables t
		WHERE t.table_schema = DATABASE() AND t.table_name = 'idempotency_record'
		UNION ALL SELECT NULL LIMIT 1`
	if err := q.QueryRowContext(ctx, find).Scan(&there); err != nil {
		return "", err
	}
	if !there.Valid {
		return "", errNoTables
	}
	return quote(there.String), nil
}

var errNoTables = dialect.SchemaError("idem: gormstore: the table idempotency_record is not in the database that the " +
	"connection's address names: run gormstore.Migrate, or name another one with gormstore.InSchema")

// beforeMigrating: each statement of a migration commits by itself, and may be run again, beside another instance's too. So
// no lock is taken: one of the session's would stay on the pool's connection.
func beforeMigrating(_ context.Context, _ dialect.Querier, schema string) error {
	if schema != "" {
		return errors.New("gormstore.InSchema is not there yet for MariaDB: name the database in the connection's address")
	}
	return nil
}

var (
	cast       = regexp.MustCompile(`::[a-z]+`)
	castAs     = regexp.MustCompile(`(?i)\bAS (bigint|integer)\)`)
	insertAs   = regexp.MustCompile(`INSERT INTO (\S+) AS \w+`)
	deleteFrom = regexp.MustCompile(`DELETE FROM (\S+) AS (\w+)`)
	excluded   = regexp.MustCompile(`excluded\.(\w+)`)
	returning  = regexp.MustCompile(`(?m)\nRETURNING [^\n;]*(;\nSELECT|$)`)
	concat     = regexp.MustCompile(`([\w.]+) \|\| ' ' \|\| ([\w.]+)`)
	asItself   = regexp.MustCompile(`([\w.]+) \|\| ''`)
)

// finish leaves out casts and the aliases that this grammar does not have.
func finish(name dialect.Statement, text string) string {
	text = cast.ReplaceAllString(text, "")
	text = castAs.ReplaceAllString(text, "AS SIGNED)")
	text = insertAs.ReplaceAllString(text, "INSERT INTO $1")
	text = deleteFrom.ReplaceAllString(text, "DELETE $2 FROM $1 AS $2")
	text = concat.ReplaceAllString(text, "CONCAT($1, ' ', $2)")
	text = asItself.ReplaceAllString(text, "CONCAT($1, '')")
	if name == "sealAnswer" {
		text = returning.ReplaceAllString(text, "$1")
	}
	return excluded.ReplaceAllString(text, "VALUES($1)")
}

// proves: these fail where they change nothing, or have a statement behind them that does.
func proves(name dialect.Statement) bool {
	switch name {
	case "putSteps", "recordAnswer", "recordOver", "recordRunning", "runOver", "sealRunning", "sealAnswer":
		return true
	}
	return false
}
