// Package dialect says what differs between databases, and renders the statements for each of them.
//
// A statement is written once, in statements, and is there for all databases. The folder of a database has the statements
// that only it has, or that it must say in another way: those replace the ones of that name. See [Render] for the few
// macros. Each folder has golden.sql, the whole statements as the database gets them, to be read, explained and tried.
package dialect

import (
	"database/sql"
	"io/fs"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// Dialect is what one database has of its own.
type Dialect struct {
	Name        string
	Connections int // the smallest pool that works
	Text        sqltext.Dialect
	Begin       string // opens a transaction that will write
	// Isolation is that of the library's own transactions: what such a transaction reads after it has got a lock must be as new
	// as the lock.
	Isolation sql.IsolationLevel
	// Statements are files with statements and macros that add to the common ones, or replace those of the same name.
	Statements fs.FS
	// Finish makes the last changes to a statement.
	Finish func(name Statement, text string) string
}

// Statement is the name of a statement: it stands behind "-- name:" in its file.
type Statement string

// TxOptions are the options of the library's own transactions.
func (d *Dialect) TxOptions() *sql.TxOptions { return &sql.TxOptions{Isolation: d.Isolation} }
