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
	// Aborts says that a statement that fails aborts its transaction.
	Aborts bool
	// Class names an error of the database without its text, which may quote values; "" for any other error.
	Class func(err error) string
	// OfCommand reports that an error of the database says something about the command: a value, a constraint.
	OfCommand func(err error) bool

	// TakesWrites is a condition that fails where nothing may be written, whatever a question would find; "": every server
	// takes writes.
	TakesWrites string
	// UniqueIndexes lists the UNIQUE indexes of a table, each as one text: the flaws, a colon, the columns. A question mark
	// follows the name of a column that may be NULL. An exclamation mark and a reason follow the name of a column whose value
	// may be another one in each attempt.
	UniqueIndexes string
	// EarlyTriggers lists the triggers of a table that run at an INSERT, also where ON CONFLICT DO NOTHING inserts no row.
	EarlyTriggers string
	// TableIsSQL says that these two take the table as an identifier in SQL, quoted.
	TableIsSQL bool

	// Statements are files with statements and macros that add to the common ones, or replace those of the same name.
	Statements fs.FS
	// Finish makes the last changes to a statement.
	Finish func(name Statement, text string) string
}

// Statement is the name of a statement: it stands behind "-- name:" in its file.
type Statement string

// TxOptions are the options of the library's own transactions.
func (d *Dialect) TxOptions() *sql.TxOptions { return &sql.TxOptions{Isolation: d.Isolation} }
