package txn

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// Mark is what says later whether a transaction is still the one that was begun. Its first statement may have read the
// server's process and the time of BEGIN: no statement can change them, and no other transaction has both. Else it is a
// savepoint, whose name a handler cannot know.
type Mark struct {
	savepoint string // its name
	pid       uint32 // of the server's process; 0: the savepoint is the mark
	begun     int64  // transaction_timestamp()
	commits   string // synchronous_commit, as the transaction is to commit; never off
	beside    bool   // see RunsBeside
}

// set makes the savepoint.
func (m *Mark) set() string {
	m.savepoint = sqltext.Savepoint + rand.Text()
	return "SAVEPOINT " + m.savepoint
}

// releaseSavepoint fails where the savepoint is not there, and so does rollbackToSavepoint, which undoes what has come
// behind it.
func (m *Mark) releaseSavepoint() string { return "RELEASE SAVEPOINT " + m.savepoint }

func (m *Mark) rollbackToSavepoint() string { return "ROLLBACK TO SAVEPOINT " + m.savepoint }

// Targets are the variables for the columns of begun, and of lockFirst behind the lock and the clock.
func (m *Mark) Targets(before ...any) []any {
	return append(slices.Grow(before, 4), &m.pid, &m.begun, &m.commits, &m.beside)
}

func (m *Mark) isSavepoint() bool { return m.pid == 0 }

// args are those of asBegun.
func (m *Mark) args() []any { return []any{int64(m.pid), m.begun, m.commits} }

// RunsBeside reports that another attempt may run beside the transaction although it has the lock: there is none, or all
// statements of the transaction see what its first one saw, and a look behind the lock may miss a record that was committed
// before the lock was taken.
func (m *Mark) RunsBeside() bool { return m.beside }

// CallOf is a call of one of the library's statements.
func (d *Database) CallOf(ctx context.Context, q Querier, name Statement, row []any, args ...any) (Call, error) {
	text, args, err := d.Statements.text(ctx, q, name, args)
	return Call{Name: name, Text: text, Args: args, Row: row, bound: d.bound}, err
}
