package gormstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/auth19/idem/core"
)

// rollbackTx is the transaction of a Rollback attempt.
type rollbackTx struct {
	*tx
	ticket core.Ticket
}

// Begin implements [core.Transactor]: BEGIN, the claim, a savepoint.
func (s *Store) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	if s.file != nil { // a repeat does not wait for the writer
		if claimed, err := s.peek(ctx, c); err != nil || isThere(claimed) {
			return nil, claimed, err
		}
		if !s.file.reserve(c.ID) {
			return nil, core.Claimed{Busy: true}, nil
		}
	}
	t, claimed, err := s.enterAndBegin(ctx, c)
	if t != nil {
		return rollbackTx{t, claimed.Record.Ticket}, claimed, nil
	}
	if s.file != nil {
		s.file.unreserve(c.ID)
	}
	if errors.Is(err, errRace) { // other claims won each time
		return nil, core.Claimed{Busy: true}, nil
	}
	return nil, claimed, err
}

func (s *Store) enterAndBegin(ctx context.Context, c core.Claim) (t *tx, claimed core.Claimed, err error) {
	if claimed, err := s.enterOrLook(ctx, c); err != nil || isThere(claimed) {
		return nil, claimed, err
	}
	defer func() {
		if t == nil { // a panic, too
			s.leaveAttempt()
		}
	}()
	for range 2 { // as in Claim
		err = retry(ctx, func() (err error) {
			t, claimed, err = s.begin(ctx, c)
			return err
		})
		if err != nil || !claimed.Untimely {
			break
		}
	}
	return t, claimed, err
}

func (s *Store) begin(ctx context.Context, c core.Claim) (_ *tx, claimed core.Claimed, err error) {
	own, err := s.pool.Conn(ctx)
	if err != nil {
		return nil, core.Claimed{}, err
	}
	keep := false
	defer func() {
		if !keep {
			rollback(own)
		}
	}()
	if s.dialect == postgres {
		if err := s.probeConnectionCheck(ctx, own); err != nil {
			return nil, core.Claimed{}, err
		}
	}
	if _, err := own.ExecContext(ctx, s.dialect.begin); err != nil {
		return nil, core.Claimed{}, err
	}
	b := backend{idle: guardOf(c.Deadline)}
	if claimed, err = s.claim(ctx, own, c, &b); err != nil || !claimed.Won {
		return nil, claimed, err
	}
	if _, err := own.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil {
		return nil, core.Claimed{}, err
	}
	keep = true
	t := s.newTx(own, answer{claimed.Record.Ticket, c})
	t.pid, t.marked = b.pid, true
	return t, claimed, nil
}

// Commit implements [core.Tx].
func (t rollbackTx) Commit(ctx context.Context, c core.Completion, undoRows bool) error {
	return t.finish(ctx, func() error { return t.record(ctx, c, undoRows) })
}

// record writes the answer into the transaction. Where it fails, nothing has been committed.
func (t rollbackTx) record(ctx context.Context, c core.Completion, undoRows bool) error {
	args, err := completionArgs(c)
	if err != nil {
		return fmt.Errorf("%w: %w", core.ErrAborted, err)
	}
	if undoRows { // and the settings with the rows
		_, err = t.conn.sql.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
		t.gone = slices.Contains([]string{noSavepoint, noTransaction}, sqlState(err))
	} else if err = t.conn.restoreSettings(ctx); err == nil {
		err = t.stillOpen(ctx)
	}
	if err != nil {
		return notCommitted(err)
	}
	last := complete
	if t.store.dialect == postgres {
		last = completeAsBegun
	}
	n, err := t.store.exec(ctx, t.conn.sql, last, append(ownedBy(t.ticket), args...)...)
	switch {
	case err != nil:
		return notCommitted(err)
	case n != 1:
		return fmt.Errorf("%w: %w", core.ErrAborted, errNotRecorded)
	}
	return nil
}

// answer is the entry of a Rollback attempt: its record, completed.
type answer struct {
	ticket core.Ticket
	claim  core.Claim
}

func (a answer) lock() int64 { return lockKey(a.ticket.ID) }

func (a answer) trace() (statement, []any) {
	return traceAnswer, []any{a.ticket.ID[:], a.ticket.Owner[:]}
}

func (a answer) committed(ctx context.Context, s *Store, q querier) (bool, error) {
	rec, err := s.find(ctx, q, a.ticket.ID)
	if errors.Is(err, core.ErrNotFound) {
		return false, nil
	}
	return rec.Ticket == a.ticket && rec.Stored == core.Completed, err
}

func (a answer) touch() (statement, []any) { return touch, []any{a.ticket.ID[:]} }

// lose claims again as the same owner, and parks: where the handler has committed, the record is there; where it has
// rolled back, the key is free.
func (a answer) lose(ctx context.Context, s *Store, q querier) error {
	c := a.claim
	c.Lease, c.Deadline = 0, 0                                        // the attempt is over, and may be settled
	c.Key, c.Window = core.KeyTime{Timed: c.Key.Timed}, core.Window{} // and its key was taken in time
	claimed, err := s.claim(ctx, q, c, nil)
	switch {
	case err != nil:
		return err
	case claimed.Busy:
		return errRace // the attempt that holds the lock may give up: try again
	case !claimed.Won && !ours(claimed.Record, c):
		return nil // another attempt has had the key since
	}
	_, err = s.exec(ctx, q, park, ownedBy(claimed.Record.Ticket)...)
	return err
}

func (a answer) leave(s *Store) {
	if s.file != nil {
		s.file.unreserve(a.ticket.ID)
	}
}
