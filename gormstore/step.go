package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// Step runs rows of the app's database as a step of a Resume attempt, once: what fn writes through tx commits together
// with the step's record and result, and later attempts get the result without running fn. The last statement before
// COMMIT proves that the attempt still owns its operation, so that a stale attempt leaves no rows.
//
// An error of fn rolls back: the step is unfinished. The result goes through JSON, in the first attempt too, and an
// untyped number comes back as a json.Number. Names are unique within an attempt, and steps follow each other; see
// [core.Call]. Errors: those of fn; core.ErrStale after a takeover; core.ErrStepsChanged; core.ErrRetryable,
// core.ErrAborted and core.ErrUnconfirmed from the end of the transaction. A handler returns them, or a 5xx: the next
// repeat goes on here.
func Step[T any](ctx context.Context, name string, fn func(tx *gorm.DB) (T, error)) (result T, err error) {
	step, err := core.EnterStep(ctx, name)
	if err != nil {
		return result, err
	}
	defer step.Leave(&err)
	if !step.Finished() {
		err = commitStep(step, func(tx *gorm.DB) (any, error) { return fn(tx) })
	}
	if err == nil {
		err = step.Finish(&result)
	}
	return result, err
}

// StepDo is [Step] for rows without a result.
func StepDo(ctx context.Context, name string, fn func(tx *gorm.DB) error) error {
	_, err := Step(ctx, name, func(tx *gorm.DB) (struct{}, error) { return struct{}{}, fn(tx) })
	return err
}

// commitStep runs work in a transaction, and commits it together with the record of the step.
func commitStep(step *core.Step, work func(tx *gorm.DB) (any, error)) error {
	switch store := step.Store().(type) {
	case *Store:
		return store.commitStep(step, work)
	case nil:
		return rehearse(step, work)
	default:
		return fmt.Errorf("idem: gormstore.Step: the module's store is a %T; a database step commits with its record, so both "+
			"must be in the same database", store)
	}
}

// rehearse runs a step in a unit test, inside the transaction of WithTx.
func rehearse(step *core.Step, work func(tx *gorm.DB) (any, error)) error {
	tx, ok := TxFrom(step.Context())
	if !ok {
		return fmt.Errorf("idem: gormstore.Step: step %q has no transaction in this unit test; add one with "+
			"gormstore.WithTx", step.Name())
	}
	return tx.Transaction(func(tx *gorm.DB) error { // a savepoint: a step that fails leaves no rows
		_, err := recordOf(step, tx, work)
		return err
	})
}

// recordOf runs work, and returns the record of the step with its result.
func recordOf(step *core.Step, tx *gorm.DB, work func(tx *gorm.DB) (any, error)) (core.StepRecord, error) {
	result, err := work(tx)
	if err != nil {
		return core.StepRecord{}, err
	}
	return step.Record(result)
}

func (s *Store) commitStep(step *core.Step, work func(tx *gorm.DB) (any, error)) error {
	ctx, ticket := step.Context(), step.Ticket()
	if err := s.enterAttempt(ctx); err != nil {
		return err
	}
	t, err := s.beginStep(ctx, ticket, step.Name())
	if err != nil {
		s.leaveAttempt()
		return err
	}
	var record core.StepRecord
	err = t.run(ctx, func(tx *gorm.DB) error {
		record, err = recordOf(step, tx, work)
		return err
	}, func(ctx context.Context) error { return t.recordStep(ctx, ticket, record) })
	if errors.Is(err, core.ErrEnded) {
		err = fmt.Errorf("step %q: %w: %w", step.Name(), core.ErrStepUnknown, err)
	}
	return err
}

// run takes a transaction that has begun to its end: work, the last statement, COMMIT.
func (t *tx) run(ctx context.Context, work func(tx *gorm.DB) error, last func(ctx context.Context) error) error {
	defer func() { _ = t.Rollback() }() // an error, a panic; does nothing after the end

	// The deadline and a lost lease end the transaction even if work does not look at its context.
	stop := context.AfterFunc(ctx, func() { _ = t.Rollback() })
	defer stop()
	bound := t.Bind(ctx)
	if err := work(bindingFrom(bound).gorm.WithContext(bound)); err != nil {
		switch ended := t.Rollback(); {
		case errors.Is(ended, core.ErrEnded):
			err = fmt.Errorf("%w: %w", ended, err)
		case ended != nil && !errors.Is(err, core.ErrRetryable):
			err = fmt.Errorf("%w: %w", core.ErrRetryable, err)
		}
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	return t.finish(patience, func() error { return last(patience) })
}

// endPatience is how long the store waits for the end of a step's or a message's transaction.
const endPatience = 10 * time.Second

func (s *Store) beginStep(ctx context.Context, ticket core.Ticket, step string) (*tx, error) {
	own, err := s.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if s.dialect == postgres {
		err = s.beginGuarded(ctx, own)
	} else {
		err = s.beginStepSQLite(ctx, own, ticket, step)
	}
	if err != nil {
		rollback(own)
		return nil, err
	}
	return s.newTx(own, result{ticket, step}), nil
}

// These open a transaction with the settings of claimKey, in one round trip: the rows of a step are locked too, and its
// process or host may be gone. SET takes no parameters; the number is the time for which the server lets the transaction do
// nothing, in milliseconds.
const (
	guardedBegin = `BEGIN; SET LOCAL tcp_user_timeout = 10000; SET LOCAL idle_in_transaction_session_timeout = %d;
SELECT pg_catalog.set_config('idem.synchronous_commit',
	pg_catalog.replace(pg_catalog.current_setting('synchronous_commit'), 'off', 'on'), true)`

	guardedBeginChecked = `BEGIN; SET LOCAL tcp_user_timeout = 10000; SET LOCAL idle_in_transaction_session_timeout = %d;
SELECT pg_catalog.set_config('idem.synchronous_commit',
	pg_catalog.replace(pg_catalog.current_setting('synchronous_commit'), 'off', 'on'), true);
SET LOCAL client_connection_check_interval = 500`
)

// beginGuarded opens a transaction that the server ends by itself when its process or host is gone.
func (s *Store) beginGuarded(ctx context.Context, own *sql.Conn) error {
	if err := s.probeConnectionCheck(ctx, own); err != nil {
		return err
	}
	left := core.DefaultDeadline
	if deadline, ok := ctx.Deadline(); ok {
		left = max(time.Until(deadline), time.Second)
	}
	begin := guardedBegin
	if s.connectionCheck.Load() == 1 {
		begin = guardedBeginChecked
	}
	_, err := own.ExecContext(ctx, fmt.Sprintf(begin, left.Milliseconds()))
	return err
}

// beginStepSQLite takes the one writer. So it proves the ownership at once: from then on nobody can take over.
func (s *Store) beginStepSQLite(ctx context.Context, conn *sql.Conn, ticket core.Ticket, step string) error {
	if _, err := conn.ExecContext(ctx, s.dialect.begin); err != nil {
		return err
	}
	if n, err := s.exec(ctx, conn, own, ownedBy(ticket)...); err != nil || n == 0 {
		return cmp.Or(err, core.ErrStale)
	}
	_, err := s.exec(ctx, conn, beginDatabaseStep, ticket.ID[:], step, ticket.Fence) // recordStep finishes it
	if err == nil {
		_, err = conn.ExecContext(ctx, "SAVEPOINT "+savepoint)
	}
	return err
}

// recordStep is the last statement of a step's transaction.
func (t *tx) recordStep(ctx context.Context, ticket core.Ticket, step core.StepRecord) error {
	if err := t.conn.restoreSettings(ctx); err != nil {
		return notCommitted(err)
	}
	args := []any{step.Name, step.Result, keys(step.Derived)}
	if t.store.dialect == postgres {
		args = append(append(ownedBy(ticket), args...), lockKey(ticket.ID))
		switch err := t.store.queryRow(ctx, t.conn.sql, recordStep, args...).Scan(&t.pid); {
		case errors.Is(err, sql.ErrNoRows):
			return core.ErrStale
		case err != nil:
			return notCommitted(err)
		}
		return nil
	}
	if err := t.stillOpen(ctx); err != nil {
		return notCommitted(err)
	}
	n, err := t.store.asOwner(ctx, t.conn.sql, ticket, recordStep, args...)
	switch {
	case err != nil:
		return notCommitted(err)
	case n != 1:
		return core.ErrStale
	}
	return nil
}

// result is the entry of a database step: its record, finished.
type result struct {
	ticket core.Ticket
	step   string
}

func (r result) lock() int64 { return lockKey(r.ticket.ID) }

func (r result) trace() (statement, []any) {
	return traceStep, []any{r.ticket.ID[:], r.step, r.ticket.Fence}
}

func (r result) committed(ctx context.Context, s *Store, q querier) (bool, error) {
	step, err := s.stepAt(ctx, q, r.ticket.ID, r.step)
	if errors.Is(err, core.ErrNotFound) {
		return false, nil
	}
	return step.Finished && step.Fence == r.ticket.Fence, err
}

func (r result) touch() (statement, []any) { return touch, []any{r.ticket.ID[:]} }

// lose parks the operation: the step may be done without its record.
func (r result) lose(ctx context.Context, s *Store, q querier) error {
	_, err := s.exec(ctx, q, park, ownedBy(r.ticket)...)
	return err
}

func (r result) leave(*Store) {}

// asOwner runs a statement of a step together with the proof of ownership, and returns how many rows it changed: 0
// also where t does not own the record any more.
func (s *Store) asOwner(ctx context.Context, q querier, t core.Ticket, name statement, args ...any) (int64, error) {
	args = append(ownedBy(t), args...)
	if s.dialect == postgres {
		return s.exec(ctx, q, name, args...)
	}
	if n, err := s.exec(ctx, q, own, ownedBy(t)...); err != nil || n == 0 {
		return 0, err
	}
	return s.exec(ctx, q, name, args...)
}

// stepWrite runs a statement of a provider step: one statement on PostgreSQL, a transaction on SQLite.
func (s *Store) stepWrite(ctx context.Context, fn func(q querier) error) error {
	if s.dialect == postgres {
		return s.write(ctx, fn)
	}
	return s.inTx(ctx, fn)
}

// StartStep implements [core.Stepper].
func (s *Store) StartStep(ctx context.Context, t core.Ticket, step core.StepRecord) (core.StepRecord, error) {
	var started core.StepRecord
	err := s.stepWrite(ctx, func(q querier) error {
		n, err := s.asOwner(ctx, q, t, startStep, step.Name, int64(step.Kind))
		if err != nil {
			return err
		}
		if n == 1 {
			// Just started: neither its window nor its result is asked for.
			started = step
			started.Fence = t.Fence
			return nil
		}
		if err := s.mustOwn(ctx, q, t); err != nil {
			return err
		}
		started, err = s.stepAt(ctx, q, t.ID, step.Name)
		if err == nil && started.Kind != step.Kind {
			return core.ErrStepsChanged
		}
		return err
	})
	return started, err
}

// FinishStep implements [core.Stepper].
func (s *Store) FinishStep(ctx context.Context, t core.Ticket, step core.StepRecord) error {
	return s.stepWrite(ctx, func(q querier) error {
		n, err := s.asOwner(ctx, q, t, finishStep, step.Name, step.Result, keys(step.Derived))
		if err != nil || n == 1 {
			return err
		}
		if err := s.mustOwn(ctx, q, t); err != nil {
			return err
		}
		there, err := s.stepAt(ctx, q, t.ID, step.Name)
		if err == nil && !there.Finished {
			err = core.ErrStale // taken over and given back in between
		}
		return err
	})
}

// mustOwn returns ErrStale unless t is current.
func (s *Store) mustOwn(ctx context.Context, q querier, t core.Ticket) error {
	rec, err := s.find(ctx, q, t.ID)
	switch {
	case errors.Is(err, core.ErrNotFound):
		return core.ErrStale
	case err != nil:
		return err
	case rec.Ticket != t || rec.Stored != core.Running:
		return core.ErrStale
	}
	return nil
}

// Steps implements [core.Stepper].
func (s *Store) Steps(ctx context.Context, id core.ID) ([]core.StepRecord, error) {
	var steps []core.StepRecord
	err := s.onPool(ctx, func(q querier) error {
		steps = nil
		rows, err := s.query(ctx, q, stepsOf, id[:])
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			step, err := scanStep(rows.Scan)
			if err != nil {
				return err
			}
			steps = append(steps, step)
		}
		return rows.Err()
	})
	return steps, err
}

func (s *Store) stepAt(ctx context.Context, q querier, id core.ID, name string) (core.StepRecord, error) {
	step, err := scanStep(s.queryRow(ctx, q, stepAt, id[:], name).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = core.ErrNotFound
	}
	return step, err
}

func scanStep(scan func(...any) error) (core.StepRecord, error) {
	var step core.StepRecord
	var now, started instant
	var kind, state, encoding int16
	var derived []byte
	err := scan(&now, &step.Name, &kind, &state, &step.Fence, &started, &encoding, &step.Result, &derived)
	if err != nil {
		return core.StepRecord{}, err
	}
	if encoding != plain {
		return core.StepRecord{}, fmt.Errorf("idem: gormstore: a step has the encoding %d of a newer release", encoding)
	}
	step.Kind, step.Finished = core.StepKind(kind), state == 2 //nolint:gosec // written by this package
	step.StartedAt, step.Now = started.Time, now.Time
	for key := range slices.Chunk(derived, len(core.DerivedKey{})) {
		step.Derived = append(step.Derived, core.DerivedKey(key))
	}
	return step, nil
}

// keys returns derived keys as they are stored: one after the other, NULL where there are none.
func keys(derived []core.DerivedKey) []byte {
	var joined []byte
	for _, key := range derived {
		joined = append(joined, key[:]...)
	}
	return joined
}

// forgetSteps takes away the steps of a record that is about to be taken over as free. A record that is resumed keeps
// them.
func (s *Store) forgetSteps(ctx context.Context, q querier, rec core.Record) error {
	if rec.Recovery != core.Resume || rec.State() != core.Free {
		return nil
	}
	_, err := s.exec(ctx, q, forgetSteps, rec.ID[:], rec.Fence)
	return err
}
