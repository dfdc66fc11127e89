package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/auth19/idem/core"
)

// rollbackTx is the transaction of a Rollback attempt.
type rollbackTx struct {
	*tx
	ticket core.Ticket
}

// Begin implements [core.Transactor]: BEGIN, the claim, a savepoint. On PostgreSQL the record of a key that
// this process has seen is read first, without a transaction.
func (s *Store) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	if err := s.check(ctx); err != nil {
		return nil, core.Claimed{}, err
	}
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
	var open *sql.Conn
	defer func() {
		switch {
		case t != nil:
		case open != nil: // the answer does not wait for it
			go func() {
				defer s.leaveAttempt()
				rollback(open)
			}()
		default: // a panic, too
			s.leaveAttempt()
		}
	}()
	if s.dialect == postgres && s.seen.before(c.ID) { // a repeat needs no transaction
		err = s.onPool(ctx, func(q querier) (err error) {
			claimed, err = s.lookFirst(ctx, q, c)
			return err
		})
		if err != nil || isThere(claimed) {
			return nil, claimed, err
		}
	}
	for range 2 { // as in Claim
		err = retry(ctx, func() (err error) {
			t, open, claimed, err = s.begin(ctx, c)
			return err
		})
		if err != nil || !claimed.Untimely {
			break
		}
	}
	return t, claimed, err
}

// begin opens the transaction of an attempt. If it finds a record, or a running attempt, it returns the connection. The
// transaction of that connection is still open, and has written nothing.
func (s *Store) begin(ctx context.Context, c core.Claim) (_ *tx, open *sql.Conn, claimed core.Claimed, err error) {
	own, err := s.pool.Conn(ctx)
	if err != nil {
		return nil, nil, core.Claimed{}, err
	}
	keep := false
	defer func() {
		if !keep {
			rollback(own)
		}
	}()
	if s.dialect == postgres {
		if err := s.probeConnectionCheck(ctx, own); err != nil {
			return nil, nil, core.Claimed{}, err
		}
	}
	b := backend{idle: guardOf(c.Deadline)}
	claimed, marked, err := s.beginAndClaim(ctx, own, c, &b)
	switch {
	case err != nil:
		return nil, nil, claimed, err
	case !claimed.Won && s.dialect == postgres && isThere(claimed):
		keep = true
		return nil, own, claimed, nil
	case !claimed.Won:
		return nil, nil, claimed, nil
	case !marked:
		if _, err := own.ExecContext(ctx, setSavepoint); err != nil {
			return nil, nil, core.Claimed{}, err
		}
	}
	keep = true
	t := s.newTx(own, answer{claimed.Record.Ticket, c})
	t.pid, t.marked, t.pipelined = b.pid, true, b.pipelined
	return t, nil, claimed, nil
}

// beginAndClaim sends BEGIN and the claim. marked says that the savepoint is already set behind what the claim has written.
func (s *Store) beginAndClaim(ctx context.Context, own *sql.Conn, c core.Claim, b *backend) (
	claimed core.Claimed, marked bool, err error,
) {
	claimed, marked, err = s.beginTogether(ctx, own, c, b)
	if b.pipelined = !errors.Is(err, ErrNotPipelined); b.pipelined {
		return claimed, marked, err
	}
	if _, err := own.ExecContext(ctx, s.dialect.begin); err != nil {
		return core.Claimed{}, false, err
	}
	claimed, err = s.claim(ctx, own, c, b)
	return claimed, false, err
}

// beginTogether sends BEGIN, the claim and the savepoint in one round trip.
func (s *Store) beginTogether(ctx context.Context, own *sql.Conn, c core.Claim, b *backend) (
	claimed core.Claimed, marked bool, err error,
) {
	if s.pipeline == nil {
		return core.Claimed{}, false, ErrNotPipelined
	}
	text, err := s.statements.text(ctx, own, claimKey)
	if err != nil {
		return core.Claimed{}, false, err
	}
	var row claimRow
	_, err = s.send(ctx, own, []PipelineStatement{
		{Text: s.dialect.begin}, {Text: text, Args: s.claimKeyArgs(c, b), Row: row.targets()}, {Text: setSavepoint},
	})
	if err != nil {
		return core.Claimed{}, false, err
	}
	claimed, err = s.claimed(ctx, own, c, b, &row)
	if errors.Is(err, errRace) {
		claimed, err = s.claim(ctx, own, c, b)
	}
	return claimed, bool(row.won), err // another claim that has won has written behind the savepoint
}

// Commit implements [core.Tx].
func (t rollbackTx) Commit(ctx context.Context, c core.Completion, undoRows bool) error {
	return t.finish(ctx, func() ([]PipelineStatement, error) {
		if err := t.conn.distress(undoRows); err != nil {
			return nil, err
		}
		return t.record(ctx, c, undoRows)
	})
}

// Rollback implements [core.Tx].
func (t rollbackTx) Rollback() error { return cmp.Or(t.tx.Rollback(), t.conn.distress(true)) }

// record writes the answer into the transaction. It returns the statements that are to be sent together with COMMIT. If
// it fails, nothing was committed.
func (t rollbackTx) record(ctx context.Context, c core.Completion, undoRows bool) ([]PipelineStatement, error) {
	args, err := completionArgs(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", core.ErrAborted, err)
	}
	args = append(ownedBy(t.ticket), args...)
	if t.store.dialect == sqlite {
		return nil, t.recordSQLite(ctx, args, undoRows)
	}
	last, err := t.lastStatements(ctx, args, undoRows)
	if err != nil {
		return nil, err
	}
	alone := len(last)
	switch {
	case t.pipelined && t.conn.kept() != nil:
		alone = 1 // a driver may prepare the others before it sends the first, and by then the role must be the library's
	case t.pipelined:
		alone = 0
	}
	for _, s := range last[:alone] {
		if _, err := t.conn.sql.ExecContext(ctx, s.Text, s.Args...); err != nil {
			return nil, notCommitted(t.noteLast(err))
		}
	}
	return last[alone:], nil
}

// lastStatements are the statements before COMMIT. Each of them fails if COMMIT must not follow.
func (t rollbackTx) lastStatements(ctx context.Context, args []any, undoRows bool) (last []PipelineStatement, err error) {
	add := func(name statement, args ...any) {
		if err == nil {
			var text string
			text, err = t.store.statements.text(ctx, t.conn.sql, name)
			last = append(last, PipelineStatement{Text: text, Args: args})
		}
	}
	if undoRows { // and the settings with the rows
		last = append(last, PipelineStatement{Text: backToSavepoint})
	} else if s := t.conn.kept(); s != nil {
		add(setSettings, s.session, s.role, s.searchPath)
	}
	add(completeAsBegun, args...)
	return last, err
}

// noteLast looks at an error of lastStatements.
func (t *tx) noteLast(err error) error {
	switch sqlState(err) {
	case noSavepoint, noTransaction:
		t.gone = true
	case divisionByZero: // of completeAsBegun
		return fmt.Errorf("%w: %w", errNotRecorded, err)
	}
	return err
}

func (t rollbackTx) recordSQLite(ctx context.Context, args []any, undoRows bool) (err error) {
	if undoRows {
		_, err = t.conn.sql.ExecContext(ctx, backToSavepoint)
	} else {
		err = t.stillOpen(ctx)
	}
	if err != nil {
		return notCommitted(err)
	}
	n, err := t.store.exec(ctx, t.conn.sql, complete, args...)
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
	// An answer that was erased in the meantime was committed, too.
	return rec.Ticket == a.ticket && (rec.Stored == core.Completed || rec.Stored == core.Expired), err
}

func (a answer) touch() (statement, []any) { return touch, []any{a.ticket.ID[:]} }

// lose claims again as the same owner, and parks the operation. If the handler has committed, the record exists. If it
// has rolled back, the key is free.
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
