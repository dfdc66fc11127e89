package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/gormstore/internal/txn"
)

// Recording an answer must not write to an index. So no index says which records are running: a claim puts its record among
// those that the sweep will look at after its retention, and nothing moves the record when it is completed. Records that are
// listed are found in two places:
//
//   - Those with sweep_after NULL. Park and a takeover set it, and so does the patrol below.
//   - Those that were claimed after the patrol passed. They are the last ones in the index of the sweep.
//
// The patrol is a part of Sweep. It walks along the index in the order of the claims, some seconds behind the clock, and
// sets sweep_after of the records that are still open. How far it has come is kept in the database. Whatever happens, every
// record that is open is either listed or was claimed later than the patrol has come:
//
//  1. The patrol announces a limit. A claim that reads a clock at or before the limit lists its record itself. That happens
//     only where the clock has gone back.
//  2. After that has committed, the patrol notes which transactions are writing to the table. A claim that has not seen the
//     limit is among them, or others can see its record by now.
//  3. When all of them are over, the patrol lists the open records up to the limit. An attempt that holds its transaction
//     open, or waits for a synchronous standby, holds the patrol up.
//
// Each step is a transaction, and one instance at a time does a step. Any instance can do the next step, also if another one
// has stopped in between.

const recordTable = ".idempotency_record"

const (
	patrolLimit   = "patrol/limit"
	patrolPassed  = "patrol/passed"
	patrolWriters = "patrol/writers" // the limit for which they were noted, and the transactions
)

const (
	// patrolBehind is how far the limit stays behind the clock. Most attempts have ended by then, and need not be listed. It
	// is also how long the patrol rests between two limits.
	patrolBehind = 10 * time.Second
	patrolBatch  = 10_000 // records that the patrol looks at in one transaction
)

// beat has the times of the patrol, in microseconds since 1970.
type beat struct {
	now, limit, passed int64
}

// rests reports whether the patrol has passed its limit, and it is too early for the next limit.
func (b beat) rests() bool {
	newest := b.now - patrolBehind.Microseconds()
	return b.passed == b.limit && b.limit <= b.now && newest-b.limit < patrolBehind.Microseconds()
}

// readBeat reads the clock, the limit, and how far the patrol has come.
func (s *Store) readBeat(ctx context.Context, q txn.Querier) (b beat, err error) {
	err = s.db.QueryRow(ctx, q, patrolled).Scan(&b.now, &b.limit, &b.passed)
	return b, err
}

// patrol does as many steps as it can now. b was read a moment ago.
func (s *Store) patrol(ctx context.Context, b beat) error {
	if b.rests() {
		return nil
	}
	for on := true; on; {
		err := s.db.InTx(ctx, func(q txn.Querier) (err error) {
			on, err = s.patrolStep(ctx, q)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// heldUp returns how long the patrol has been on the way to its limit. It is 0 if the patrol has reached the limit, or
// has just announced it. before was read before the patrol. heldUp asks the database only if an earlier sweep has not
// finished the patrol.
func (s *Store) heldUp(ctx context.Context, before beat) (time.Duration, error) {
	if before.passed >= before.limit {
		return 0, nil
	}
	b, err := s.readBeat(ctx, s.db.Pool)
	if err != nil || b.limit != before.limit || b.passed >= b.limit {
		return 0, err
	}
	return max(0, time.Duration(b.now-b.limit)*time.Microsecond), nil
}

// patrolStep does the next step. It reports whether another step can follow now.
func (s *Store) patrolStep(ctx context.Context, q txn.Querier) (on bool, err error) {
	if turn, err := s.patrolsTurn(ctx, q); err != nil || !turn {
		return false, err
	}
	b, err := s.readBeat(ctx, q)
	switch {
	case err != nil || b.rests():
		return false, err
	case b.limit > b.now: // the clock has gone back, or was ahead: walk again from here
		b.limit = b.now - patrolBehind.Microseconds()
		return true, s.keepBeat(ctx, q, b.limit, min(b.passed, b.limit))
	case b.passed >= b.limit:
		limit := b.now - patrolBehind.Microseconds()
		return limit > b.passed, s.keepNumber(ctx, q, patrolLimit, limit)
	}
	if wait, err := s.patrolWaits(ctx, q, b.limit); err != nil || wait {
		return false, err
	}
	passed, err := s.patrolTo(ctx, q, b)
	if err != nil || passed <= b.passed {
		return false, err
	}
	return true, s.keepNumber(ctx, q, patrolPassed, passed)
}

// patrolsTurn reports whether no other instance is doing a step now. It never waits for another instance, because that
// may hang.
func (s *Store) patrolsTurn(ctx context.Context, q txn.Querier) (turn bool, err error) {
	if s.db.Dialect == txn.SQLite {
		return true, nil // the transaction is the only writer
	}
	schema, err := s.db.Statements.FindSchema(ctx, q)
	if err != nil {
		return false, err
	}
	err = s.db.QueryRow(ctx, q, patrolTurn, schema+recordTable).Scan(&turn, new(string))
	return turn, err
}

// patrolWaits reports whether a transaction that was writing when the limit was announced is still open. The first call
// records these transactions.
func (s *Store) patrolWaits(ctx context.Context, q txn.Querier, limit int64) (bool, error) {
	if s.db.Dialect == txn.SQLite {
		return false, nil // there is no other writer
	}
	schema, err := s.db.Statements.FindSchema(ctx, q)
	if err != nil {
		return false, err
	}
	var writing, kept string
	if err := s.db.QueryRow(ctx, q, writers, schema+recordTable).Scan(&writing); err != nil {
		return false, err
	}
	err = s.db.QueryRow(ctx, q, setting, patrolWriters).Scan(&kept)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	noted, found := strings.CutPrefix(kept, strconv.FormatInt(limit, 10)+":")
	if !found {
		noted = writing
		if _, err := s.db.Exec(ctx, q, keepSetting, patrolWriters, strconv.FormatInt(limit, 10)+":"+writing); err != nil {
			return false, err
		}
	}
	still := map[string]bool{}
	for transaction := range strings.FieldsSeq(writing) {
		still[transaction] = true
	}
	for transaction := range strings.FieldsSeq(noted) {
		if still[transaction] {
			return true, nil
		}
	}
	return false, nil
}

// patrolTo lists the open records up to the limit, or up to the end of a batch, and returns how far it has come.
func (s *Store) patrolTo(ctx context.Context, q txn.Querier, b beat) (passed int64, err error) {
	if s.db.Dialect == txn.SQLite {
		if err := s.db.QueryRow(ctx, q, patrolUpto, b.passed, b.limit, patrolBatch).Scan(&passed); err != nil {
			return 0, err
		}
		_, err = s.db.Exec(ctx, q, patrol, b.passed, passed)
		return passed, err
	}
	err = s.db.QueryRow(ctx, q, patrol, b.passed, b.limit, patrolBatch).Scan(&passed)
	return passed, err
}

func (s *Store) keepBeat(ctx context.Context, q txn.Querier, limit, passed int64) error {
	if err := s.keepNumber(ctx, q, patrolPassed, passed); err != nil {
		return err
	}
	return s.keepNumber(ctx, q, patrolLimit, limit)
}

func (s *Store) keepNumber(ctx context.Context, q txn.Querier, name string, value int64) error {
	_, err := s.db.Exec(ctx, q, keepSetting, name, strconv.FormatInt(value, 10))
	return err
}
