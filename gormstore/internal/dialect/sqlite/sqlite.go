// Package sqlite is what SQLite has of its own.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"io/fs"
	"regexp"

	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/sqltext"
)

//go:embed statements
var statements embed.FS

// Dialect is SQLite. Its pool has a connection that holds the lock on the file.
var Dialect = &dialect.Dialect{
	Name: "sqlite", Migrations: "sqlite", Connections: 3, Text: sqltext.SQLite, Begin: begin,
	BeginDurably: []string{begin}, BeginTest: []string{begin},
	Isolation: sql.LevelSerializable, Statements: []fs.FS{statements}, Finish: finish,
	Reading: &sql.TxOptions{ReadOnly: true}, OneWriter: true,
	Class: class, OfCommand: ofCommand, OfStatement: ofStatement, IsThere: isThere, IsNull: isNull,
	TakesWrites: "true", TableColumns: tableColumns, Columns: "SELECT name FROM pragma_table_info(?1)",
	UniqueIndexes: uniqueIndexes, EarlyTriggers: earlyTriggers, Table: func(name, _ string) string { return name },
	InSchema: inSchema, FindSchema: findSchema, BeforeMigrating: beforeMigrating, Inspect: inspect, NewProcess: newFile,
}

const (
	begin  = "BEGIN IMMEDIATE"
	schema = "main"
)

// inSchema: a file has no other one.
func inSchema(string) string { return schema }

func findSchema(context.Context, dialect.Querier) (string, error) { return schema, nil }

// beforeMigrating: who writes is alone.
func beforeMigrating(context.Context, dialect.Querier, string) error { return nil }

const tableColumns = `SELECT t.value || '.' || c.name
FROM json_each('["' || replace(?2, ',', '","') || '"]') t JOIN pragma_table_info(t.value, ?1) c`

var (
	cast      = regexp.MustCompile(`::[a-z]+`)
	parameter = regexp.MustCompile(`\$(\d+)`)
)

// finish leaves out casts, which SQLite does not need, and writes parameters as SQLite does.
func finish(_ dialect.Statement, text string) string {
	return parameter.ReplaceAllString(cast.ReplaceAllString(text, ""), "?$1")
}
