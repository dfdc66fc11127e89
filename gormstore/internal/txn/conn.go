package txn

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore/internal/sqltext"
)

var (
	errOver = errors.New("idem: gormstore: the attempt is over, and its transaction has ended; do not use the context or " +
		"the transaction of a handler after the handler has returned")
	errNotYours = errors.New("idem: gormstore: the attempt ends its own transaction; return an error or a status from " +
		"the handler instead of calling Commit or Rollback")
	errLost = errors.New("idem: gormstore: an earlier statement has ended the transaction: SQLite does so when the context " +
		"of a write ends, when the disk is full, or when a conflict is resolved with ROLLBACK; a server may do so after a " +
		"deadlock")
	errPanicked = errors.New("idem: gormstore: the code that makes the arguments of a statement has panicked")
	errPrepare  = errors.New("idem: gormstore: an attempt cannot use prepared statements, because it would not see their " +
		"errors; run statements directly, drivers prepare and cache them (GORM: no Session{PrepareStmt: true} on Tx)")
)

// DBTX is gormstore.DBTX.
type DBTX interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Conn is the connection of a transaction as handlers see it. It checks every error, because a handler may swallow one
// that decides how the attempt ends. It refuses transaction control, and statements after the end.
type Conn struct {
	SQL *sql.Conn
	db  *Database

	attempt context.Context         // the handler's, set by bind
	cut     context.CancelCauseFunc // ends it; nil where it has an end of its own

	guarded []any                    // how the guards know the connection
	step    atomic.Pointer[stepConn] // the one under way, of a Resume attempt
	leaves  atomic.Bool              // something may stay on the connection: see residue.go
	stuck   atomic.Int32             // queries whose argument has panicked: see unstick
	copying atomic.Bool              // a CopyFrom is being sent
	wrote   atomic.Bool              // a statement of the handler may have written
	message atomic.Pointer[Binding]  // the innermost message that has joined the transaction and is being processed
	ended   atomic.Bool              // after a statement of the handler there was no transaction
	lost    atomic.Bool              // the database has ended it itself, with the error of a statement
	onEnded func(ctx context.Context)

	mu     sync.RWMutex // held for reading by statements, for writing by the end
	over   bool
	serial sync.Locker // no other statement may come between one that has failed and the look whether it ended the transaction

	stateMu  sync.Mutex
	failures failures
	rows     []unread  // given to the handler
	settings *Settings // as they were before a statement that may change them; nil if there was none
}

var _ DBTX = (*Conn)(nil)

// bind returns the handler's context. It ends with the attempt, and so does every statement.
func (c *Conn) bind(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt, c.cut = context.WithCancelCause(ctx)
	if c.over { // its deadline came first
		c.cut(errOver)
	}
	return c.attempt
}

// endAccess ends the handler's access, because nothing may reach the connection after COMMIT. It waits for a statement that
// is running, closes rows that were not read to their end, and cancels everything else.
func (c *Conn) endAccess() {
	c.mu.Lock()
	c.over = true
	for _, seen := range c.guarded {
		attemptConns.Delete(seen)
	}
	cut := c.cut
	c.mu.Unlock()
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	c.checkRows(false)
	if stuck := c.stuck.Load(); stuck > 0 && unstick(c.SQL, stuck) {
		c.stuck.Store(0)
	}
	c.sawEnd()
	if cut != nil {
		cut(errOver)
	}
}

// sawEnd reports, once, that the handler has ended the transaction: the server has none after one of its statements.
func (c *Conn) sawEnd() bool {
	return Status(c.SQL) == Idle && c.ended.CompareAndSwap(false, true)
}

// admit admits a statement, or the statements of a batch, or refuses it with an error. Call done after the statement.
func (c *Conn) admit(ctx context.Context, queries ...string) (inside sqltext.Findings, err error) {
	writes := false
	for _, query := range queries {
		found := c.db.inspections.Of(c.db.Dialect.Text, query)
		writes = writes || found.Writes && !isOwn(ctx, query) // a reference to the operation is no row of the handler's
		inside.Join(found)
	}
	if inside.Control != nil {
		return inside, c.refused(inside.Control)
	}
	if err = c.open(); err != nil {
		return inside, err
	}
	if inside.Changes || len(inside.Residue) > 0 {
		if err = c.saveSettings(ctx); err != nil {
			c.unlock()
			return inside, err
		}
	}
	if writes {
		c.wrote.Store(true)
	}
	c.noteResidue(ctx, inside.Residue)
	return inside, nil
}

// open begins a statement, if the transaction is still open. Call release after the statement.
func (c *Conn) open() (err error) {
	c.mu.RLock()
	c.serial.Lock()
	switch {
	case c.over:
		err = errOver
	case c.copying.Load():
		err = c.refused(errCopying)
	case c.lost.Load():
		err = errLost // the statement would commit on its own
	}
	if err != nil {
		c.unlock()
	}
	return err
}

// refused is [refused] for the attempt of the connection: the handler may have given the statement another context.
func (c *Conn) refused(err error) error {
	if c.attempt == nil { // it is not bound yet
		return err
	}
	return refused(c.attempt, err)
}

// execOwn runs a statement of the library, between those of the handler. It is no part of the end: what comes too late
// must not undo the answer.
func (c *Conn) execOwn(ctx context.Context, statement string) error {
	if err := c.open(); err != nil {
		return err
	}
	defer c.unlock()
	_, err := c.SQL.ExecContext(ctx, statement)
	if err != nil {
		c.lookWhether(false, false)
	}
	return err
}

// unlock ends what open has begun.
func (c *Conn) unlock() {
	c.serial.Unlock()
	c.mu.RUnlock()
}

// done records how a statement has ended.
func (c *Conn) done(inside sqltext.Findings, rows unread, err error) {
	defer c.unlock()
	if errors.Is(err, errNotPgx) {
		_ = c.refused(err)
	}
	c.keep(inside, rows, err)
	if err != nil || inside.Calls {
		c.lookWhether(err == nil, rows != nil)
	}
	if c.sawEnd() {
		c.onEnded(c.attempt)
	}
}

// lookWhether asks whether the transaction is still open, behind a statement or a row that has failed, and behind a function
// of the app's: a database may end it itself after some errors, and what came next would commit on its own. byHandler: no
// error has ended it. busy: the handler has rows. c.serial is held.
func (c *Conn) lookWhether(byHandler, busy bool) {
	switch {
	case c.db.Process.StillOpen(c.SQL, byHandler && busy):
	case byHandler:
		if c.ended.CompareAndSwap(false, true) {
			c.onEnded(c.attempt)
		}
	case !c.ended.Load():
		c.lost.Store(true)
	}
}

// failedRow is lookWhether for a row.
func (c *Conn) failedRow() {
	c.mu.RLock()
	c.serial.Lock()
	defer c.unlock()
	if !c.over {
		c.lookWhether(false, false)
	}
}

// failedClose is failedRow for rows that the handler has closed before it has heard of the error.
func (c *Conn) failedClose(err error) {
	c.stateMu.Lock()
	failed := c.noteError(err)
	c.stateMu.Unlock()
	if failed {
		c.failedRow()
	}
}

// keep remembers what a statement has returned.
func (c *Conn) keep(inside sqltext.Findings, rows unread, err error) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if err != nil {
		c.failures.note(c.db.Dialect, err)
		return
	}
	c.closeBusy()
	if inside.Marks != "" {
		c.failures.mark(inside.Marks)
	}
	if inside.Undoes != "" {
		c.undone(inside.Undoes)
	}
	if rows != nil {
		c.rows = append(c.rows, rows)
	}
}

// freeBusy is closeBusy in front of a statement: database/sql would wait for open rows until the deadline.
func (c *Conn) freeBusy() {
	c.stateMu.Lock()
	failed := c.closeBusy()
	c.stateMu.Unlock()
	if failed {
		c.failedRow()
	}
}

// closeBusy closes the rows that keep the connection busy: one to a server has one result at a time. failed: see
// checkRows.
func (c *Conn) closeBusy() (failed bool) {
	return !c.db.Dialect.OneWriter && c.checkRows(true)
}

// checkRows closes the rows that the handler was given, and records the errors that came while they were read. failed: one
// came only now, of a statement behind the one whose rows they are. byHandler: it is called in the handler's goroutine.
func (c *Conn) checkRows(byHandler bool) (failed bool) {
	for _, rows := range c.rows {
		failed = c.noteError(rows.Close()) || failed
		if r, ok := rows.(unreadRows); ok && byHandler {
			r.forget()
		}
		c.noteError(rows.Err())
	}
	c.rows = nil
	return failed
}

// noteError records an error of rows. That a context has ended is none: database/sql may say so of rows that were read and
// closed before it ended.
func (c *Conn) noteError(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	c.failures.note(c.db.Dialect, err)
	return true
}

// undone records that a ROLLBACK TO SAVEPOINT has succeeded, which has undone the errors of rows, too.
func (c *Conn) undone(savepoint string) {
	c.rows = slices.DeleteFunc(c.rows, func(rows unread) bool {
		failed := rows.Err() != nil
		c.noteError(rows.Err())
		if failed {
			_ = rows.Close() // database/sql may not have done so yet
		}
		return failed
	})
	c.failures.undone(savepoint)
}

// CloseRows closes the rows that the handler was given, in the goroutine of the handler.
func (c *Conn) CloseRows() {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	c.checkRows(true)
}

// readOn is called when the handler reads on in results that the library has closed. What it has got is cut short, so it
// must not end in a success.
func (c *Conn) readOn() error {
	over := true
	if c.mu.TryRLock() { // else it is just ending, and may wait for a CopyFrom that reads these rows
		over = c.over
		c.mu.RUnlock()
	}
	if inAttempt := c.attempt != nil && core.CutShort(c.attempt, errClosed); !inAttempt && !over {
		c.fail(errClosed) // a message
	}
	return errClosed
}

// fail makes sure that the transaction does not commit.
func (c *Conn) fail(err error) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	c.failures.fatal = cmp.Or(c.failures.fatal, err)
}

// failure returns the first error that asks for a repeat of the whole command.
func (c *Conn) failure() error {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return cmp.Or(c.failures.fatal, c.failures.retryable)
}

// within returns a context that ends when ctx or the attempt ends. Otherwise the rollback at the deadline would have to
// wait for a statement with context.Background(). Call over behind the statement and its rows: else it stays until the
// attempt ends.
func (c *Conn) within(ctx context.Context) (_ context.Context, over func()) {
	attempt := c.attempt
	if attempt == nil || ctx.Done() == attempt.Done() {
		return ctx, func() {}
	}
	if step := c.step.Load(); step != nil && ctx.Done() == step.ends {
		return ctx, func() {}
	}
	both, cut := context.WithCancelCause(ctx)
	stop := context.AfterFunc(attempt, func() { cut(context.Cause(attempt)) })
	return both, func() {
		stop()
		cut(context.Canceled)
	}
}

// ExecContext implements [DBTX].
func (c *Conn) ExecContext(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	c.freeBusy()
	inside, err := c.admit(ctx, query)
	if err != nil {
		return nil, err
	}
	err = errPanicked
	defer func() { c.done(inside, nil, err) }()
	ctx, over := c.within(ctx)
	defer over()
	result, err = c.SQL.ExecContext(ctx, query, args...)
	return result, err
}

// PrepareContext refuses: the errors of a prepared statement would go unseen, and it could outlive the attempt.
func (c *Conn) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, c.refused(errPrepare)
}

// QueryContext implements [DBTX].
func (c *Conn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := c.query(ctx, query, args)
	if err != nil {
		return nil, err
	}
	out, err := c.db.handouts.rows(rows)
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	rows.out = out
	return out, err
}

func (c *Conn) query(ctx context.Context, query string, args []any) (rows *handedRows, err error) {
	c.freeBusy()
	inside, err := c.admit(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err = &handedRows{conn: c}, errPanicked
	defer func() {
		if errors.Is(err, errPanicked) {
			c.stuck.Add(1)
		}
		c.done(inside, unreadRows{rows}, err)
	}()
	ctx, rows.ends = c.within(ctx)
	rows.rows, err = c.SQL.QueryContext(ctx, query, args...) //nolint:rowserrcheck // checkRows
	if err != nil {
		rows.ends()
	}
	return rows, err
}

// QueryRowContext implements [DBTX].
func (c *Conn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	rows, err := c.query(ctx, query, args) // the row closes them, or the end
	if err != nil {
		return c.db.handouts.refused(err)
	}
	return c.db.handouts.row(rows)
}

// Commit refuses: only the attempt itself commits. GORM uses a savepoint for a transaction inside the attempt's, because
// Conn has Commit and Rollback.
func (c *Conn) Commit() error { return c.refused(errNotYours) }

// Rollback refuses: only the attempt itself rolls back.
func (c *Conn) Rollback() error { return c.refused(errNotYours) }
