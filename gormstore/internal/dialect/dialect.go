// Package dialect says what differs between databases, and renders the statements for each of them.
//
// A database is one [Dialect], in a folder of its own. It is named in one place, package txn's dialect.go. Whoever asks
// what database this is asks for one of the few facts of the Dialect, or calls one of its functions.
//
// A statement is written once, in statements, and is there for all databases. The folder of a database has the statements
// that only it has, or that it must say in another way: those replace the ones of that name. One that it has no use for is
// empty there, and is not sent. See [Render] for the few macros. Each folder has golden.sql, the whole statements as the
// database gets it, to be read, explained and tried.
package dialect

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// Dialect is what one database has of its own.
type Dialect struct {
	Name        string
	Migrations  string // their folder in gormstore
	Connections int    // the smallest pool that works
	Text        sqltext.Dialect
	Driver      string // the package of a driver whose texts are read like that; "": as where no database is known
	Begin       string // opens a transaction that will write
	// BeginDurably opens one whose COMMIT is durable whatever was left on the connection.
	BeginDurably []string
	// BeginRenewals opens one in which leases are renewed. One row that is locked must not hold up all of them.
	BeginRenewals []string
	// BeginTest opens the transaction of a self-test, in which no conflict with others is reported, a constraint fails at the
	// statement that breaks it, and the server bounds the time of each statement.
	BeginTest []string
	// LockTries is how often an attempt tries its key's lock: twice where who asks for a lock takes it for a moment. 0: once.
	LockTries int
	// Isolation is that of the library's own transactions: what such a transaction reads after it has got a lock must be as new
	// as the lock.
	Isolation sql.IsolationLevel
	// Reading are the options of a transaction that only reads.
	Reading *sql.TxOptions

	// The facts.

	// Aborts says that a statement that fails aborts its transaction.
	Aborts bool
	// OneWriter says that the database is in this process, and one transaction writes at a time: see [Process].
	OneWriter bool
	// Returns says that one statement can answer what it has written, or why it has not.
	Returns bool

	// Class names an error of the database without its text, which may quote values; "" for any other error.
	Class func(err error) string
	// OfCommand reports that an error of the database says something about the command: a value, a constraint.
	OfCommand func(err error) bool
	// IsThere reports that an INSERT has met a record.
	IsThere func(err error) bool
	// IsDuplicate reports that an INSERT of the app's has met a row; nil: one with ON CONFLICT DO NOTHING says how many it
	// inserts.
	IsDuplicate func(err error) bool
	// IsNull reports that a column of the record must not be NULL.
	IsNull func(err error, column string) bool
	// OfStatement reports an error that a statement has wherever it is sent, and that has no SQLSTATE.
	OfStatement func(err error) bool

	// Bind writes the parameters of a statement into its text; nil: the driver sends them. A statement may then be several,
	// with a semicolon at the end of a line between two. The row and the count are those of the last one.
	Bind func(text string, args []any) string
	// Proves reports that a statement fails by itself where it does not change what it must; nil: its rows are counted.
	Proves func(name Statement) bool
	// BeginOwn begins a transaction of the library's own, where the driver's COMMIT and ROLLBACK know no context, and would
	// wait for a server that is gone; nil: by the driver.
	BeginOwn []string
	// WriteIn are the options of the transaction that each write of the library has for itself; nil: it has none.
	WriteIn *sql.TxOptions

	// Apart reports whether the server is one of several that take writes and share no lock; nil: it is not.
	Apart func(ctx context.Context, q Querier) (bool, error)
	// TakesWrites is a condition that fails where nothing may be written, whatever a question would find.
	TakesWrites string
	// TableColumns lists the columns of the tables $2 in the schema $1, both as they stand in statements, each as table.column.
	// A comma stands between two tables.
	TableColumns string
	// Columns lists the columns of a table.
	Columns string
	// UniqueIndexes lists the UNIQUE indexes of a table, each as one text: the flaws, a colon, the columns. A question mark
	// follows the name of a column that may be NULL. An exclamation mark and a reason follow the name of a column whose value
	// may be another one in each attempt.
	UniqueIndexes string
	// EarlyTriggers lists the triggers of a table that run at an INSERT, also where ON CONFLICT DO NOTHING inserts no row.
	EarlyTriggers string
	// Table is a table as these three take it: its name, or that as an identifier in SQL.
	Table func(name, identifier string) string

	// InSchema is a schema that was named, as it stands in statements.
	InSchema func(schema string) string
	// FindSchema finds the schema of the tables, as it stands in statements. An error says why there is none.
	FindSchema func(ctx context.Context, q Querier) (string, error)
	// BeforeMigrating is called in a transaction that will migrate: no other instance does until it ends, and the tables of the
	// migrations are those of the schema; "": that is found.
	BeforeMigrating func(ctx context.Context, q Querier, schema string) error
	// Inspect returns what is wrong with the server, and with the tables that are needed in a schema, beyond their columns.
	// inUse: a database that does not last passes.
	Inspect func(ctx context.Context, q Querier, schema string, need Rights, inUse bool) []error
	// NewProcess makes what this process holds of a database.
	NewProcess func() Process

	// Statements are files with statements and macros. They add to the common ones and to those in front, or replace those of
	// the same name.
	Statements []fs.FS
	// Finish makes the last changes to a statement.
	Finish func(name Statement, text string) string
}

// Statement is the name of a statement: it stands behind "-- name:" in its file.
type Statement string

// Rights are what a role must be allowed to do with tables. A table with no rights is still checked for what it keeps.
type Rights map[string]string

// TxOptions are the options of the library's own transactions.
func (d *Dialect) TxOptions() *sql.TxOptions { return &sql.TxOptions{Isolation: d.Isolation} }

// LockSpace is the namespace of the locks of records. It is mixed into their numbers, so that they differ from the app's own
// locks, whose numbers may be hashes as well. A migration uses the number itself.
const LockSpace = 0x6964656d7265636f // "idemreco"
