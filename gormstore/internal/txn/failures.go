package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/auth19/idem/core/store"
)

// failures are what a handler's statements have failed with. A handler may swallow the error that decides how its attempt
// ends.
type failures struct {
	retryable  error            // an error that asks for a repeat of the whole command; class 40 before others
	unresolved error            // the first that no ROLLBACK TO has undone: it may have aborted the transaction
	marks      map[string]error // the unresolved error at a savepoint
	fatal      error            // why the transaction must not commit, whatever is undone
}

// note remembers the error of a statement.
func (f *failures) note(d *Dialect, err error) {
	if err == nil {
		return
	}
	if d.Class(err) != "" {
		f.unresolved = cmp.Or(f.unresolved, err)
	}
	if isRetryable(err) && (f.retryable == nil || IsConflict(err) && !IsConflict(f.retryable)) {
		f.retryable = err
	}
}

// mark notes a SAVEPOINT that has succeeded.
func (f *failures) mark(savepoint string) {
	if f.marks == nil {
		f.marks = map[string]error{}
	}
	f.marks[savepoint] = f.unresolved
}

// undone notes a ROLLBACK TO SAVEPOINT that has succeeded. It has undone every error that came behind the savepoint. A lock
// that was not granted and a statement that was cancelled were optional then. After a conflict the whole command must be
// repeated.
func (f *failures) undone(savepoint string) {
	f.unresolved = f.marks[savepoint]
	if state := SQLState(f.retryable); state == LockNotAvailable || state == queryCanceled {
		f.retryable = nil
	}
}

// ErrNotOfCommand says that the error that decides the end of an attempt is not of its command, but of the server or the
// schema.
var ErrNotOfCommand = errors.New("idem: gormstore: a statement has failed with an error that says nothing about the " +
	"command, so the handler's answer to it is not recorded")

// NotOfCommand returns store.ErrRetryable if the unresolved error says nothing about the command: a server that has no
// memory, a table that was changed, a missing right. A handler that answers 404 to any error of First would otherwise have
// that answer recorded. Errors about values, constraints and those that an app's function raises (22, 23, P0) are the
// command's.
//
// Where a failed statement does not abort the transaction, a success after it is the handler's decision.
func (c *Conn) NotOfCommand(refusal bool) error {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	err := c.failures.unresolved
	if !refusal {
		err = c.abortCauseLocked()
	}
	if err == nil || c.db.Dialect.OfCommand(err) {
		return nil
	}
	return fmt.Errorf("%w: %w: %w", store.ErrRetryable, ErrNotOfCommand, err)
}

// lostItself is the error of a transaction that the database itself has ended. A full disk says nothing about the command. A
// constraint does, and a statement whose context has ended was given it by the handler.
func (c *Conn) lostItself() error {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	err := c.failures.unresolved
	d := c.db.Dialect
	if class := d.Class(err); class == "" || class == d.Class(context.Canceled) || d.OfCommand(err) {
		return fmt.Errorf("%w: %w", store.ErrAborted, errLost)
	}
	return fmt.Errorf("%w: %w: %w", store.ErrRetryable, ErrNotOfCommand, err)
}

// abortCause returns the error that has aborted the transaction; nil where a failed statement aborts nothing.
func (c *Conn) abortCause() error {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return c.abortCauseLocked()
}

// abortCauseLocked is abortCause; c.stateMu is held.
func (c *Conn) abortCauseLocked() error {
	if !c.db.Dialect.Aborts {
		return nil
	}
	return c.failures.unresolved
}
