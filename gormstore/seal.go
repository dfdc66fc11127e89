package gormstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// segment is the entry of a transaction of an attempt: what its seal writes.
type segment struct {
	*attempt
	seal    *store.Seal  // nil until the segment ends
	answer  storedAnswer // of seal
	results [][]byte     // of its steps
	now     pgtype.Int8  // when the record was written, as its statement returned it
	read    time.Time    // when it was found written, if its COMMIT was read back
}

// isFirst reports whether the segment writes the record.
func (e *segment) isFirst() bool { return e == &e.attempt.first }

// at is the database's clock at the seal. Of a COMMIT that was read back the statement's reply is not known; it may even
// arrive later.
func (e *segment) at(err error) time.Time {
	switch {
	case err != nil:
		return time.Time{}
	case !e.read.IsZero():
		return e.read
	}
	return txn.Time(e.now)
}

// Lock implements [txn.Entry].
func (e *segment) Lock() int64 { return txn.LockKey(e.claim.ID) }

// Unreserve implements [txn.Entry]. Behind the first seal the record keeps others out.
func (e *segment) Unreserve() {
	if e.isFirst() {
		e.store.running.remove(e.claim.ID, e.claim.Owner)
		e.store.db.Process.Unreserve(e.claim.ID, e.claim.Owner)
	}
}

// Committed reports whether this very seal has committed: the record alone would not tell it from an earlier one. It is told
// by a write. Where the seal was to write the record, a free one takes its place, and its COMMIT, which may still be
// under way, fails for ever. On SQLite none is, and the statement writes nothing: the connection knows that its transaction
// is over.
func (e *segment) Committed(ctx context.Context, q txn.Querier) (bool, error) {
	s, t, seal := e.store, e.ticket(), e.seal
	var err error
	if e.isFirst() {
		err = s.fenceOff(ctx, q, t, e.freeFence)
	} else {
		_, err = s.db.Exec(ctx, q, lockRecord, t.ID[:])
	}
	if err != nil {
		return false, err
	}
	var scan recordScan
	rec, err := s.scan(ctx, q, &scan, find, t.ID[:])
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case seal.Answer != nil: // one that was erased in the meantime was committed, too
		return rec.Ticket == t && (rec.Stored == store.Expired || rec.Stored == store.Completed && scan.stored().is(e.answer)), nil
	case rec.Fence > t.Fence: // whoever has it may have taken over what this seal has committed
		return false, store.ErrStale
	case rec.Ticket != t || rec.Stored == store.Free: // the free one bears this ticket, and may still have steps of before
		return false, nil
	}
	e.read = rec.Now
	// Each of the two may have been there before: the start of a call that is repeated, and the result of a call that was
	// recorded by a write of its own whose end nobody knew.
	if len(seal.Steps) > 0 {
		last, err := s.stepAt(ctx, q, t.ID, seal.Steps[len(seal.Steps)-1].Name)
		if there, err := isThereStep(last, err); !there || !last.Finished {
			return false, err
		}
	}
	if seal.Start != nil {
		return isThereStep(s.stepAt(ctx, q, t.ID, seal.Start.Name))
	}
	return true, nil // or it wrote the record, or only a lease
}

func isThereStep(_ store.StepRecord, err error) (bool, error) {
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// RecordUnknown makes the operation unknown, and says how its attempt has ended. If the handler has rolled back before the
// first seal, the key is free, and another attempt may have it. Where its lock may be a stranger's, nobody waits for it:
// whoever has the key finds the record at its own seal, and its rows are undone.
func (e *segment) RecordUnknown(ctx context.Context, q txn.Querier, left time.Duration) error {
	s := e.store
	ends, err := e.endsItself(ctx, q)
	if err != nil {
		return err
	}
	if e.isSealed() {
		_, err := s.db.Exec(ctx, q, park, append(ownedBy(e.ticket()), ends)...)
		return err
	}
	locked := true
	switch err := s.db.QueryRow(ctx, q, lockUnknown, e.Lock()).Scan(&locked, new(bool)); {
	case err != nil:
		return err
	case !locked:
		return txn.ErrRace // the attempt that holds the lock may give up: try again
	}
	// Where it writes nothing, another attempt has had the key since.
	n, err := s.db.Exec(ctx, q, loseAnswer, append(e.recordArgs(), left.Microseconds(), ends)...)
	if err == nil && n == 1 && e.stepped {
		_, err = s.db.Exec(ctx, q, forgetSteps, e.claim.ID[:], e.fence, e.claim.Owner[:])
	}
	return err
}

// endsItself is how the operation's attempts have ended, with this one, whose handler has ended the transaction.
func (a *attempt) endsItself(ctx context.Context, q txn.Querier) ([]byte, error) {
	now, err := a.store.db.ClockWithin(ctx, q, store.Window{})
	end := store.AttemptEnd{Fence: a.fence, At: now, How: store.EndItself, Instance: a.claim.Owner.Instance()}
	return store.Record{Ends: a.ends}.WithEnd(end), err
}

// Seal implements [store.Attempt].
func (a *attempt) Seal(ctx context.Context, seal store.Seal) (now time.Time, err error) {
	e := &a.first
	if a.isSealed() {
		e = &segment{attempt: a}
	}
	e.seal = &seal
	if err := e.sealUp(ctx); errors.Is(err, store.ErrRetryable) {
		return time.Time{}, cmp.Or(a.Rollback(), err)
	} else if err != nil {
		return time.Time{}, err
	}
	t, err := a.toSeal(ctx, e)
	if err == nil && t != nil {
		if seal.Answer == nil && !seal.Alone { // the handler goes on
			t.Conn.CloseRows()
		}
		err = t.Finish(ctx, func() (txn.FinalCalls, error) {
			t.Entry = e
			if err := t.Conn.NotOfCommand(seal.Alone); err != nil {
				return txn.FinalCalls{}, err
			}
			return e.last(ctx, t)
		})
	}
	if txn.IsUnrecorded(err) { // the self-test finds what has dropped the record, and refuses what comes next (F-8)
		a.store.validated.Doubt()
	}
	if e.isFirst() {
		a.noteFirst(err)
	}
	if err = a.errorByRecord(ctx, t, e, err); err == nil {
		a.store.recent.add(a.claim.ID, seal.Answer != nil)
	}
	return e.at(err), err
}

// noteFirst notes how the first seal has ended.
func (a *attempt) noteFirst(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sealed, a.over = err == nil, err != nil
	if errors.Is(err, store.ErrAborted) {
		a.refused = err
	}
}

// toSeal returns the transaction that the seal ends. It is nil if the answer could be recorded without one.
func (a *attempt) toSeal(ctx context.Context, e *segment) (*txn.Tx, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	seal := e.seal
	switch t := a.last; {
	case a.over && a.refused != nil && seal.Alone && seal.Answer != nil:
		if err := a.reopen(); err != nil {
			return nil, err
		}
	case a.over:
		return nil, errOver
	case a.isOpen && !seal.Alone && databaseSteps(seal) > t.Steps: // it was opened after the one with their rows
		return nil, errUndone
	case a.isOpen && (!seal.Alone || !a.sealed):
		a.isOpen = false
		return t, nil
	case a.isOpen: // the rows are undone, and what is alone gets a transaction of its own
		a.isOpen = false
		if err := t.Rollback(); errors.Is(err, store.ErrEnded) {
			return nil, err
		}
	case databaseSteps(seal) > 0:
		return nil, errUndone
	}
	if a.sealed && seal.Answer != nil && seal.Steps == nil {
		return nil, a.store.complete(ctx, a.ticket(), e.answer, *seal.Answer)
	}
	err := a.open(ctx)
	if a.isOpen = false; err != nil {
		e.Unreserve() // there is no transaction that would
	}
	return a.last, err
}

// reopen lets a refusal of the handler be recorded alone behind a first seal that the database has refused, if that error
// says something about the command. It takes the key in this process; the database judges in the last statement.
func (a *attempt) reopen() error {
	switch d := a.store.db.Dialect; {
	case d.Class(a.refused) == "":
		return a.refused
	case !d.OfCommand(a.refused):
		return fmt.Errorf("%w: %w: %w", store.ErrRetryable, txn.ErrNotOfCommand, a.refused)
	}
	if !a.store.db.Process.Reserve(a.claim.ID, a.claim.Owner) {
		return store.ErrStale
	}
	a.over = false
	return nil
}

// errUndone: the rows of the steps that are to be sealed are not in the open segment.
var errUndone = fmt.Errorf("%w: the segment of these steps was undone", store.ErrRetryable)

func databaseSteps(seal *store.Seal) (n int) {
	for _, step := range seal.Steps {
		if step.Kind == store.DatabaseStep {
			n++
		}
	}
	return n
}

// errorByRecord returns err, or what the record says about it: ErrStale where another attempt or a settlement has the
// record; nil where an earlier try has recorded the answer. A seal with rows is tried only once.
//
// Before the first seal it looks only at a stricter level than READ COMMITTED. There an attempt may have begun beside the
// moment in which another one committed (M-6): it saw no record, and a ROLLBACK has no judge. It looks once for each
// transaction: the deadline may have ended it, and nobody has heard what it found.
func (a *attempt) errorByRecord(ctx context.Context, t *txn.Tx, e *segment, err error) error {
	if e.isFirst() {
		undone := err == nil && !a.isSealed() || errors.Is(err, store.ErrRetryable) || errors.Is(err, store.ErrAborted)
		if t == nil || !undone || !t.Mark.RunsBeside() {
			return err
		}
		t.OtherRecord.Looked.Do(func() { t.OtherRecord.Err = a.taken(ctx) })
		return cmp.Or(t.OtherRecord.Err, err)
	}
	if !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrRetryable) && !errors.Is(err, store.ErrAborted) {
		return err
	}
	rec, found := a.store.Find(ctx, a.claim.ID, store.Viewer{All: true})
	switch mine := found == nil && rec.Ticket == a.ticket(); {
	case mine && e.seal.Answer != nil && databaseSteps(e.seal) == 0 && hasOutcome(rec):
		return nil
	case !mine && (found == nil || errors.Is(found, store.ErrNotFound)):
		return fmt.Errorf("%w: %w", store.ErrStale, err)
	}
	return err
}

// taken returns an error unless nobody else has the key.
func (a *attempt) taken(ctx context.Context) error {
	rec, err := a.store.Find(ctx, a.claim.ID, store.Viewer{All: true})
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (rec.State() == store.Free || rec.Ticket == a.ticket()):
		return nil
	case err == nil:
		return store.ErrStale
	}
	return fmt.Errorf("%w: it is not known whether another attempt has the key: %w", store.ErrUnconfirmed, err)
}

// last returns the last message of a segment: the record or its lease, the steps, COMMIT; or, after the rows are undone, the
// record alone.
func (e *segment) last(ctx context.Context, t *txn.Tx) (txn.FinalCalls, error) {
	name, row, args := e.record()
	record, err := t.DB.CallOf(ctx, t.Conn.SQL, name, row, args...)
	if err != nil {
		return txn.FinalCalls{}, err
	}
	calls := []txn.Call{t.DB.Must(1, record)}
	if e.isFirst() && e.stepped { // what takes a free record forgets its steps; in this order, as sweep and erasure
		forget, err := t.DB.CallOf(ctx, t.Conn.SQL, forgetSteps, nil, e.claim.ID[:], e.fence, e.claim.Owner[:])
		if err != nil {
			return txn.FinalCalls{}, err
		}
		if calls = append(calls, forget); e.isAlone() { // it may have no transaction around both
			slices.Reverse(calls)
		}
	}
	if e.isAlone() {
		return e.alone(ctx, t, calls)
	}
	steps, err := e.stepCalls(ctx, t)
	if err != nil {
		return txn.FinalCalls{}, err
	}
	return t.Restored(ctx, append(calls, steps...)...)
}

// isAlone reports that the answer is recorded without the rows of the first segment.
func (e *segment) isAlone() bool { return e.isFirst() && e.seal.Alone && e.seal.Answer != nil }

// alone is the last message where the rows are undone. The transaction is ended in the same one, if that can be: in one that
// has failed, or under a role that the handler has taken, the driver cannot prepare the rest. It takes the key's lock first:
// an attempt that has begun since the transaction was lost goes on.
func (e *segment) alone(ctx context.Context, t *txn.Tx, calls []txn.Call) (txn.FinalCalls, error) {
	switch lock, err := t.DB.CallOf(ctx, t.Conn.SQL, lockAlone, nil, e.Lock()); {
	case err != nil:
		return txn.FinalCalls{}, err
	case lock.Text != "":
		calls = append([]txn.Call{lock}, calls...)
	}
	if t.Conn.SavedSettings() == nil && txn.Status(t.Conn.SQL) != txn.Failed {
		within, err := t.Undoing(ctx)
		return txn.FinalCalls{Within: within, Alone: calls}, err
	}
	switch ours, err := t.RollbackOurs(ctx); {
	case err != nil:
		return txn.FinalCalls{}, fmt.Errorf("%w: %w", store.ErrRetryable, err)
	case !ours:
		t.Gone = true
		return txn.FinalCalls{}, store.ErrEnded
	}
	return txn.FinalCalls{Alone: calls}, nil
}

// record is the statement that writes the record of a segment, and fails where the attempt does not own it. All but
// recordAnswer return the clock.
func (e *segment) record() (name txn.Statement, row, args []any) {
	a, c, seal := e.attempt, &e.claim, e.seal
	var answer []any
	if seal.Answer != nil {
		answer = completionArgs(e.answer, *seal.Answer)
	}
	clock := func() []any { return []any{&e.now} }
	from, to := txn.Micros(seal.Window.From), txn.Latest(seal.Window)
	switch {
	case e.isFirst() && seal.Answer != nil:
		args = append(append(a.recordArgs(), txn.Micros(c.Window.From)), answer...)
		if a.freeFence == 0 {
			return recordAnswer, nil, args
		}
		return recordOver, clock(), append(args, a.freeFence)
	case e.isFirst():
		args = append(a.recordArgs(), c.Lease.Microseconds(), c.Deadline.Microseconds(), from, to)
		if a.freeFence == 0 {
			return recordRunning, clock(), args
		}
		return runOver, clock(), append(args, a.freeFence)
	case seal.Answer != nil:
		return sealAnswer, clock(), append(ownedBy(a.ticket()), answer...)
	}
	state := store.Running
	if e.seal.Alone && e.seal.Start == nil { // results of calls, which whoever settles the operation has to know
		state = store.Unknown
	}
	args = append(ownedBy(a.ticket()), c.Lease.Microseconds(), from, to, int64(state))
	return sealRunning, clock(), args
}

// recordArgs are $1 to $12 of recordAnswer, recordOver, recordRunning, runOver and loseAnswer.
func (a *attempt) recordArgs() []any {
	c := &a.claim // a copy would be one more piece of memory
	return append(make([]any, 0, 21), c.ID[:], c.Scope[:], c.Owner[:], a.fence, int64(c.Recovery), c.Method, c.Route,
		int64(c.Hash.Version), c.Hash.Sum[:], c.Realm[:], a.timed || c.Key.Timed, c.Traceparent)
}

// stepCalls are the statements that write the steps of a segment, two in each: those that have finished, and the one that
// starts.
func (e *segment) stepCalls(ctx context.Context, t *txn.Tx) (calls []txn.Call, err error) {
	var all [][]any
	for i, step := range e.seal.Steps {
		all = append(all, e.stepArgs(step, stepFinished, e.results[i], keys(step.Derived)))
	}
	if e.seal.Start != nil {
		all = append(all, e.stepArgs(*e.seal.Start, stepStarted, nil, nil))
	}
	for two := range slices.Chunk(all, 2) {
		args := append(make([]any, 0, 14), e.claim.ID[:])
		args = append(append(args, two[0]...), two[len(two)-1]...)
		if len(two) == 1 { // there is no second one
			clear(args[7:])
		}
		args = append(args, e.store.sealer.encoding())
		put, err := t.DB.CallOf(ctx, t.Conn.SQL, putSteps, nil, args...)
		if err != nil {
			return nil, err
		}
		calls = append(calls, t.DB.Must(len(two), put))
	}
	return calls, nil
}

func (e *segment) stepArgs(step store.StepRecord, state int64, result, derived []byte) []any {
	return []any{cmp.Or(step.Fence, e.fence), step.Name, int64(step.Kind), state, result, derived}
}

// The states of steps.
const (
	stepStarted  = 1
	stepFinished = 2
)
