package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// rollbackTx is the transaction of a Rollback attempt, or the first of a Resume attempt.
type rollbackTx struct {
	*txn.Tx
	answer *answer
}

// Begin implements [store.Transactor]. On PostgreSQL the transaction writes nothing before its end: the key's lock keeps
// other attempts out, and the record is written with the answer. The record of a key that this process has seen is read
// first, without a transaction. On SQLite, which has one writer, the record is claimed at once.
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Tx, store.Claimed, error) {
	t, claimed, err := s.beginFirst(ctx, c)
	if t == nil {
		return nil, claimed, err
	}
	return rollbackTx{t, t.Entry.(*answer)}, claimed, nil
}

// beginFirst claims for an attempt that writes nothing to be seen before its first commit, and opens its transaction. On
// SQLite the transaction of a Resume attempt opens later. An operation that can be resumed is only returned.
func (s *Store) beginFirst(ctx context.Context, c store.Claim) (t *txn.Tx, claimed store.Claimed, err error) {
	if err := s.check(ctx); err != nil {
		return nil, store.Claimed{}, err
	}
	if s.db.File != nil { // a repeat does not wait for the writer
		if claimed, err := s.peek(ctx, c); err != nil || txn.IsThere(claimed) {
			return nil, claimed, err
		}
		if !s.db.File.Reserve(c.ID, c.Owner) {
			return nil, store.Claimed{Busy: true}, nil
		}
		defer func() {
			if !claimed.Won {
				s.db.File.Unreserve(c.ID, c.Owner)
			}
		}()
		if c.Recovery == store.Resume {
			claimed, err = s.wouldWin(ctx, c)
			return nil, claimed, err
		}
	}
	t, claimed, err = s.enterAndBegin(ctx, c)
	if errors.Is(err, txn.ErrRace) { // other claims won each time
		return nil, store.Claimed{Busy: true}, nil
	}
	return t, claimed, err
}

func (s *Store) enterAndBegin(ctx context.Context, c store.Claim) (t *txn.Tx, claimed store.Claimed, err error) {
	look := func(ctx context.Context) (store.Claimed, error) { return s.peek(ctx, c) }
	if claimed, err := s.db.EnterOrLook(ctx, look); err != nil || txn.IsThere(claimed) {
		return nil, claimed, err
	}
	var open *sql.Conn
	defer func() {
		switch {
		case t != nil:
		case open != nil: // the answer does not wait for it
			go func() {
				defer s.db.LeaveAttempt()
				txn.Rollback(open)
			}()
		default: // a panic, too
			s.db.LeaveAttempt()
		}
	}()
	if s.db.Dialect == txn.Postgres && s.seen.before(c.ID) { // a repeat needs no transaction
		if claimed, err = s.lookFirst(ctx, c); err != nil || txn.IsThere(claimed) {
			return nil, claimed, err
		}
	}
	for range 2 { // as in Claim
		err = txn.Retry(ctx, func() (err error) {
			t, open, claimed, err = s.begin(ctx, c)
			return err
		})
		if err != nil || !claimed.KeyRefused {
			break
		}
	}
	return t, claimed, err
}

// begin opens the transaction of an attempt. If it finds a record, or a running attempt, it returns the connection. The
// transaction of that connection is still open, and has written nothing.
func (s *Store) begin(ctx context.Context, c store.Claim) (t *txn.Tx, open *sql.Conn, claimed store.Claimed, err error) {
	own, err := s.db.Pool.Conn(ctx)
	if err != nil {
		return nil, nil, store.Claimed{}, err
	}
	defer func() {
		if t == nil && open == nil {
			txn.Undo(own, err)
		}
	}()
	if s.db.Dialect == txn.SQLite {
		t, claimed, err = s.beginSQLite(ctx, own, c)
		return t, nil, claimed, err
	}
	t, locked, claimed, err := s.lockAndLook(ctx, own, c)
	if err == nil && txn.IsThere(claimed) && !locked { // with the lock, ROLLBACK comes first: no repeat may find the key taken
		open = own
	}
	return t, open, claimed, err
}

// lookedAt is what the first message of an attempt reads, in one piece of memory with what the attempt will write.
type lookedAt struct {
	answer  answer
	lock    pgtype.Bool // NULL: not tried
	now, at pgtype.Int8 // when it was tried, and when the record was read
	floor   floor
	mark    txn.Mark
	record  recordScan
}

// lockAndLook begins the transaction of an attempt, tries the key's lock, and looks at the record: one round trip. Lock and
// look are two statements, so that the look sees everything that was committed before the lock was taken. A record that is
// seen decides; the lock decides only without one.
func (s *Store) lockAndLook(ctx context.Context, own *sql.Conn, claim store.Claim) (
	t *txn.Tx, locked bool, claimed store.Claimed, err error,
) {
	if err := s.db.ProbeConnectionCheck(ctx, own); err != nil {
		return nil, false, store.Claimed{}, err
	}
	l := &lookedAt{answer: answer{store: s, claim: claim, fence: 1}}
	a, c, scan := &l.answer, &l.answer.claim, &l.record
	args := append(append(make([]any, 0, 5), c.ID[:], txn.LockKey(c.ID)), s.db.Guards(c.Deadline)...)
	first, err := s.db.CallOf(ctx, own, lockFirst, l.mark.Targets(&l.lock, &l.now, &l.floor), append(args, floorName(claim))...)
	if err != nil {
		return nil, false, store.Claimed{}, err
	}
	second, err := s.db.CallOf(ctx, own, lookFirst, scan.targets(&l.at), c.ID[:])
	if err != nil {
		return nil, false, store.Claimed{}, err
	}
	if err = txn.Ask(ctx, own, s.db.Opening(first, second)...); err != nil {
		return nil, false, store.Claimed{}, err
	}
	lock, now, there := l.lock, txn.Time(l.now), scan.id != nil
	var seen store.Record
	switch {
	case now.IsZero():
		return nil, lock.Bool, store.Claimed{}, txn.ErrNoWrites
	case there:
		seen, err = s.thereIs(ctx, scan, txn.Time(l.at))
		if err != nil || !takeable(seen, claim) {
			return nil, lock.Bool, store.Claimed{Record: seen}, err
		}
		if seen.State() != store.Free {
			return nil, lock.Bool, store.Claimed{Record: seen}, nil // resumable
		}
		a.seen, a.fence, a.timed, a.stepped = seen.Fence, seen.Fence+1, seen.Timed, seen.Recovery == store.Resume
	}
	switch {
	case !lock.Valid: // the record that decided has gone in between
		return nil, false, store.Claimed{}, txn.ErrRace
	case !lock.Bool:
		return nil, false, store.Claimed{Busy: true}, nil
	case !there && !c.Trusts(now):
		return nil, true, store.Claimed{}, store.ErrClock
	case !there && !c.Key.Allows(now, l.floor.Time), there && refuses(seen, claim, l.floor):
		return nil, true, keyRefused(now), nil
	case there:
		if hidden, err := outside(seen, claim); hidden {
			return nil, true, store.Claimed{Record: seen}, err
		}
	}
	won := wonRecord(claim, a.fence, now)
	won.Timed = a.timed || c.Key.Timed
	t = s.db.NewTx(own, a)
	t.Mark = l.mark
	return t, true, store.Claimed{Won: true, Record: won}, nil
}

// Seal implements [store.Tx].
func (t rollbackTx) Seal(ctx context.Context, s store.Seal) (now time.Time, err error) {
	err = t.Finish(ctx, func() (txn.LastCalls, error) {
		if err := t.Conn.Distress(s.Alone); err != nil {
			return txn.LastCalls{}, err
		}
		return t.last(ctx, *s.Answer, s.Alone)
	})
	if errors.Is(err, store.ErrRetryable) || errors.Is(err, store.ErrAborted) {
		return now, t.unlessTaken(ctx, err)
	}
	return now, err
}

// Rollback implements [store.Tx].
func (t rollbackTx) Rollback() error {
	err := t.Tx.Rollback()
	if errors.Is(err, store.ErrEnded) {
		return err
	}
	ctx, cancel := txn.Ending()
	defer cancel()
	return t.unlessTaken(ctx, cmp.Or(err, t.Conn.Distress(true)))
}

// unlessTaken returns err, or ErrStale where another attempt's record stands. At a stricter level than READ COMMITTED an
// attempt may have begun beside the moment in which another one committed (M-6): it saw no record, and a ROLLBACK has no
// judge. So the record is looked for once more, before the client is told that nothing was applied.
func (t rollbackTx) unlessTaken(ctx context.Context, err error) error {
	if !t.Mark.SharesSnapshot() {
		return err
	}
	t.Taken.Once.Do(func() { // the deadline may have ended the transaction, and nobody has heard what it found
		rec, found := t.answer.store.Find(ctx, t.answer.claim.ID)
		switch {
		case errors.Is(found, store.ErrNotFound), found == nil && (rec.State() == store.Free || rec.Ticket == t.answer.ticket()):
		case found == nil:
			t.Taken.Err = store.ErrStale
		default:
			t.Taken.Err = fmt.Errorf("%w: it is not known whether another attempt has the key: %w", store.ErrUnconfirmed, found)
		}
	})
	return cmp.Or(t.Taken.Err, err)
}

// last returns the last message of the attempt: the record with the answer, steps, and COMMIT; or, after the rows are
// undone, the record alone.
func (t rollbackTx) last(ctx context.Context, c store.Completion, undoRows bool, steps ...txn.Call) (txn.LastCalls, error) {
	args, err := completionArgs(c)
	if err != nil {
		return txn.LastCalls{}, fmt.Errorf("%w: %w", store.ErrAborted, err)
	}
	if t.DB.Dialect == txn.SQLite {
		return t.recordSQLite(ctx, args, undoRows)
	}
	args = append(append(t.answer.args(), txn.Micros(t.answer.claim.Window.From)), args...)
	name, row := recordAnswer, []any(nil)
	if undoRows {
		name, row = recordOver, []any{new(int)}
		args = append(args, nil, nil, nil, t.answer.seen, txn.LockKey(t.answer.claim.ID))
	} else if args = append(args, t.Mark.Args()...); t.answer.seen != 0 {
		name, row = recordOver, []any{new(int)}
		args = append(args, t.answer.seen, nil)
	}
	record, err := t.DB.CallOf(ctx, t.Conn.SQL, name, row, args...)
	if err != nil {
		return txn.LastCalls{}, err
	}
	calls := []txn.Call{record}
	if t.answer.stepped { // what takes a free record forgets its steps
		forget, err := t.DB.CallOf(ctx, t.Conn.SQL, forgetSteps, nil, t.answer.claim.ID[:], t.answer.seen)
		if err != nil {
			return txn.LastCalls{}, err
		}
		calls = []txn.Call{forget, record}
	}
	if undoRows {
		return t.alone(ctx, calls)
	}
	return t.Restored(ctx, append(calls, steps...)...)
}

// alone is the last message where the rows are undone. The transaction is ended in the same one, if that can be: in one that
// has failed, or under a role that the handler has taken, the driver cannot prepare the rest.
func (t rollbackTx) alone(ctx context.Context, calls []txn.Call) (txn.LastCalls, error) {
	own := t.Conn.SQL
	if t.Conn.Kept() == nil && txn.Status(own) != txn.Failed {
		check, err := t.DB.CallOf(ctx, own, txn.AsBegun, []any{new(int)}, t.Mark.Args()...)
		return txn.LastCalls{Within: []txn.Call{check, {Text: "ROLLBACK"}}, Alone: calls}, err
	}
	switch ours, err := t.RollbackPostgres(ctx); {
	case err != nil:
		return txn.LastCalls{}, fmt.Errorf("%w: %w", store.ErrRetryable, err)
	case !ours:
		t.Gone = true
		return txn.LastCalls{}, store.ErrEnded
	}
	return txn.LastCalls{Alone: calls}, nil
}

// answer is the entry of a Rollback attempt: its record, completed.
type answer struct {
	store   *Store
	claim   store.Claim
	fence   int64
	seen    int64 // the fence of the free record that was seen; 0: there was none
	timed   bool  // it is one of a timed key
	stepped bool  // it may have steps
}

func (a *answer) ticket() store.Ticket {
	return store.Ticket{ID: a.claim.ID, Owner: a.claim.Owner, Fence: a.fence}
}

// args are $1 to $12 of recordAnswer, recordOver and loseAnswer.
func (a *answer) args() []any {
	c := &a.claim // a copy would be one more piece of memory
	return append(make([]any, 0, 24), c.ID[:], c.Scope[:], c.Owner[:], a.fence, int64(c.Recovery), c.Method, c.Route,
		int64(c.Hash.Version), c.Hash.Sum[:], c.Realm[:], a.timed || c.Key.Timed, c.Traceparent)
}

func (a *answer) Lock() int64 { return txn.LockKey(a.claim.ID) }

func (a *answer) Trace() (txn.Statement, []any) {
	return traceAnswer, []any{a.claim.ID[:], a.claim.Owner[:]}
}

func (a *answer) Committed(ctx context.Context, q txn.Querier) (bool, error) {
	rec, err := a.store.find(ctx, q, a.claim.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	// An answer that was erased in the meantime was committed, too.
	return rec.Ticket == a.ticket() && (rec.Stored == store.Completed || rec.Stored == store.Expired), err
}

// Lose writes the record of an operation that is unknown. If the handler has rolled back, the key is free, and another
// attempt may have it.
func (a *answer) Lose(ctx context.Context, q txn.Querier, left time.Duration) error {
	s := a.store
	if s.db.Dialect == txn.SQLite {
		return a.loseSQLite(ctx, q)
	}
	if a.stepped { // what takes a free record forgets its steps
		if _, err := s.db.Exec(ctx, q, forgetSteps, a.claim.ID[:], a.seen); err != nil {
			return err
		}
	}
	var lock, written bool
	args := append(a.args(), a.Lock(), left.Microseconds())
	if err := s.db.QueryRow(ctx, q, loseAnswer, args...).Scan(&lock, &written); err != nil {
		return err
	}
	if !lock {
		return txn.ErrRace // the attempt that holds the lock may give up: try again
	}
	return nil // not written: another attempt has had the key since
}

func (a *answer) Leave() { a.store.db.File.Unreserve(a.claim.ID, a.claim.Owner) }
