// Package postgres is what PostgreSQL has of its own.
package postgres

import (
	"database/sql"
	"embed"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/sqltext"
)

//go:embed statements
var statements embed.FS

// Dialect is PostgreSQL.
var Dialect = &dialect.Dialect{
	Name: "postgres", Migrations: "postgres", Connections: 2, Text: sqltext.Postgres, Begin: "BEGIN",
	BeginDurably:  []string{"BEGIN", "SET LOCAL synchronous_commit = on"},
	BeginRenewals: []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SET LOCAL lock_timeout = '250ms'"},
	BeginTest: []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SET LOCAL statement_timeout = '10s'",
		"SET LOCAL synchronous_commit = on", "SET CONSTRAINTS ALL IMMEDIATE"},
	Isolation: sql.LevelReadCommitted, Statements: []fs.FS{statements}, Finish: finish,
	Reading: &sql.TxOptions{Isolation: sql.LevelReadCommitted}, // else it could not be told from one of a standby
	Aborts:  true, Returns: true,
	Class: class, OfCommand: ofCommand, OfStatement: ofStatement, IsThere: isThere, IsNull: isNull,
	TakesWrites: takesWrites, TableColumns: tableColumns, Columns: columns,
	UniqueIndexes: uniqueIndexes, EarlyTriggers: earlyTriggers,
	Table:    func(_, identifier string) string { return identifier },
	InSchema: dialect.Quote, FindSchema: findSchema, BeforeMigrating: beforeMigrating, Inspect: inspect,
	NewProcess: dialect.OfServer,
}

func finish(name dialect.Statement, text string) string {
	if asks(name, text) {
		return fromWriter(text)
	}
	return text
}

// fromWriter puts takesWrites around a question.
func fromWriter(question string) string {
	return "SELECT answer.* FROM (" + question + ") AS answer\nWHERE " + takesWrites
}

// asks reports whether any server could answer a statement: one that writes fails by itself where nothing may be written,
// and a few of a claim return what the server says of itself. Others say nothing of the tables, and belong to a transaction
// that writes.
func asks(name dialect.Statement, text string) bool {
	ofTransaction := []dialect.Statement{
		"begun", "askForCheck", "asBegun", "readSettings", "setSettings", "waitLocks", "withoutJIT", "lockClaim",
		"lockGuarded",
	}
	return text != "" && !writes.MatchString(text) && !strings.Contains(text, readOnlySetting) &&
		!slices.Contains(ofTransaction, name)
}

var writes = regexp.MustCompile(`\b(INSERT INTO|UPDATE|DELETE FROM)\b`)

const readOnlySetting = "pg_catalog.current_setting('transaction_read_only')" // on in recovery, too

// takesWrites is judged once, before the first row is read. A standby that is behind answers as well, without the steps, the
// intent or the marker that the primary has (F-8).
const takesWrites = "CAST(CASE " + readOnlySetting + " WHEN 'off' THEN 'true' ELSE '" + dialect.NoWrites +
	"' END AS boolean)"
