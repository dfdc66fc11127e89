// Package sqlite is what SQLite has of its own.
package sqlite

import (
	"database/sql"
	"embed"
	"regexp"

	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/sqltext"
)

//go:embed statements
var statements embed.FS

// Dialect is SQLite. Its pool has a connection that holds the lock on the file.
var Dialect = &dialect.Dialect{
	Name: "sqlite", Connections: 3, Text: sqltext.SQLite, Begin: "BEGIN IMMEDIATE",
	Isolation: sql.LevelSerializable, Statements: statements, Finish: finish,
	Class: class, OfCommand: ofCommand, UniqueIndexes: uniqueIndexes, EarlyTriggers: earlyTriggers,
}

var (
	cast      = regexp.MustCompile(`::[a-z]+`)
	parameter = regexp.MustCompile(`\$(\d+)`)
)

// finish leaves out casts, which SQLite does not need, and writes parameters as SQLite does.
func finish(_ dialect.Statement, text string) string {
	return parameter.ReplaceAllString(cast.ReplaceAllString(text, ""), "?$1")
}
