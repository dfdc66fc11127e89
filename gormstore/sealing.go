package gormstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// sealing is the entry of a segment: what its seal writes.
type sealing struct {
	segments *segments
	seal     *store.Seal // nil until the segment ends
	first    bool        // it writes the record
	now      pgtype.Int8 // when it was written, as its statement returned it
	read     time.Time   // when it was found written, if its COMMIT was read back
}

// at is the database's clock at the seal. Of a COMMIT that was read back the statement's reply is not known; it may even
// arrive later.
func (e *sealing) at(err error) time.Time {
	switch {
	case err != nil:
		return time.Time{}
	case !e.read.IsZero():
		return e.read
	}
	return txn.Time(e.now)
}

func (e *sealing) Lock() int64 { return e.segments.answer.Lock() }

// Committed reports whether this very seal has committed: the record alone would not tell it from an earlier one.
func (e *sealing) Committed(ctx context.Context, q txn.Querier) (bool, error) {
	s, t, seal := e.segments.store, e.segments.answer.ticket(), e.seal
	if seal.Answer != nil {
		return e.segments.answer.Committed(ctx, q)
	}
	rec, err := s.find(ctx, q, t.ID)
	switch {
	case err == nil && rec.Fence > t.Fence: // whoever has it may have taken over what this seal has committed
		return false, store.ErrStale
	case errors.Is(err, store.ErrNotFound), err == nil && rec.Ticket != t:
		return false, nil
	case err != nil:
		return false, err
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

// Lose makes the operation unknown.
func (e *sealing) Lose(ctx context.Context, q txn.Querier, left time.Duration) error {
	if !e.segments.isSealed() {
		return e.segments.answer.Lose(ctx, q, left)
	}
	_, err := e.segments.store.db.Exec(ctx, q, park, ownedBy(e.segments.answer.ticket())...)
	return err
}

func (e *sealing) Leave() {}

// last returns the last message of a segment: the record or its lease, the steps, COMMIT.
func (e *sealing) last(ctx context.Context, t *txn.Tx) (txn.LastCalls, error) {
	if t.DB.Dialect == txn.SQLite {
		return e.lastSQLite(ctx, t)
	}
	steps, err := e.stepCalls(ctx, t)
	if err != nil {
		return txn.LastCalls{}, err
	}
	a, seal := e.segments.answer, e.seal
	if e.first && seal.Answer != nil {
		return rollbackTx{t, a}.last(ctx, *seal.Answer, seal.Alone, steps...)
	}
	record, err := e.recordCall(ctx, t)
	if err != nil {
		return txn.LastCalls{}, err
	}
	calls := append([]txn.Call{record}, steps...)
	if e.first && a.stepped { // what takes a free record forgets its steps
		forget, err := t.DB.CallOf(ctx, t.Conn.SQL, forgetSteps, nil, a.claim.ID[:], a.seen)
		if err != nil {
			return txn.LastCalls{}, err
		}
		calls = append([]txn.Call{forget}, calls...)
	}
	return t.Restored(ctx, calls...)
}

// recordCall is the statement that writes the record of a segment, and fails where the attempt does not own it.
func (e *sealing) recordCall(ctx context.Context, t *txn.Tx) (txn.Call, error) {
	a, c := e.segments.answer, e.segments.answer.claim
	window := []any{txn.Micros(e.seal.Window.From), txn.Latest(e.seal.Window)}
	switch {
	case e.seal.Answer != nil:
		args, err := completionArgs(*e.seal.Answer)
		if err != nil {
			return txn.Call{}, txn.NotCommitted(err)
		}
		args = append(append(ownedBy(a.ticket()), args...), t.Mark.Args()...)
		return t.DB.CallOf(ctx, t.Conn.SQL, sealAnswer, []any{new(int), &e.now}, args...)
	case e.first:
		args := append(append(a.args(), c.Lease.Microseconds(), c.Deadline.Microseconds()), window...)
		args = append(append(args, t.Mark.Args()...), a.seen, sweepAfter(c))
		return t.DB.CallOf(ctx, t.Conn.SQL, recordRunning, []any{new(int), &e.now}, args...)
	}
	args := append(append(ownedBy(a.ticket()), c.Lease.Microseconds()), window...)
	return t.DB.CallOf(ctx, t.Conn.SQL, sealRunning, []any{new(int), &e.now}, append(args, t.Mark.Args()...)...)
}

// stepCalls are the statements that write the steps of a segment, two steps in each.
func (e *sealing) stepCalls(ctx context.Context, t *txn.Tx) (calls []txn.Call, err error) {
	ticket := e.segments.answer.ticket()
	for steps := range slices.Chunk(e.steps(), 2) {
		args := append(make([]any, 0, 13), ticket.ID[:])
		for _, step := range steps {
			args = append(args, step.args(ticket.Fence)...)
		}
		if len(steps) == 1 {
			args = append(args, nil, nil, nil, nil, nil, nil)
		}
		put, err := t.DB.CallOf(ctx, t.Conn.SQL, putSteps, []any{new(int)}, args...)
		if err != nil {
			return nil, err
		}
		calls = append(calls, put)
	}
	return calls, nil
}

// sealedStep is a step that a seal writes.
type sealedStep struct {
	store.StepRecord
	state int64
}

// steps are the steps that the seal writes: those that have finished, and the one that starts.
func (e *sealing) steps() []sealedStep {
	all := make([]sealedStep, 0, len(e.seal.Steps)+1)
	for _, step := range e.seal.Steps {
		all = append(all, sealedStep{step, stepFinished})
	}
	if e.seal.Start != nil {
		start := store.StepRecord{Name: e.seal.Start.Name, Kind: e.seal.Start.Kind, Fence: e.seal.Start.Fence}
		all = append(all, sealedStep{start, stepStarted})
	}
	return all
}

// args are the arguments for one step of the attempt with the fence own.
func (s *sealedStep) args(own int64) []any {
	return []any{cmp.Or(s.Fence, own), s.Name, int64(s.Kind), s.state, s.Result, keys(s.Derived)}
}

// The states of steps.
const (
	stepStarted  = 1
	stepFinished = 2
)
