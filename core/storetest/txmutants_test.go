package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core"
)

// The mutants of a core.Transactor.
var txMutants = map[string]mutantOf[*reference, core.Transactor]{
	"shows open rows":                {"Tx/Visible", func(s *reference) core.Transactor { return &dirtyReads{rememberer{reference: s}} }},
	"keeps the key after a rollback": {"Tx/Rollback", with(keepsKey)},
	"keeps rows of a rollback":       {"Tx/Rollback", with(keepsRows)},
	"keeps rows of a refusal":        {"Tx/Undo", with(neverUndoes)},
	"forgets the refusal":            {"Tx/Undo", with(undoesAll)},
	"shows others the open row":      {"Tx/BusyAtOnce", func(s *reference) core.Transactor { return &showsOpenRow{rememberer{reference: s}} }},
	"knows of no open row":           {"Tx/InFlight", func(s *reference) core.Transactor { return seesNothing{s} }},
	"runs Resume from the start":     {"Tx/ExistingRow", func(s *reference) core.Transactor { return restarts{s} }},
	"commits what was rolled back":   {"Tx/OverOnce", with(confirmsAll)},
	"ends with the claim's context":  {"Tx/ClaimContext", func(s *reference) core.Transactor { return contextBound{s} }},
	"settles at once":                {"Tx/Settlement", func(s *reference) core.Transactor { return settlesAtOnce{s} }},
	"lists no committed attempt":     {"Tx/EndedByItsHandler", func(s *reference) core.Transactor { return listsNoRollback{s} }},
	"runs a committed attempt again": {"Tx/EndedByItsHandler", func(s *reference) core.Transactor { return runsCommitted{s} }},
	"calls a committed attempt busy": {"Tx/EndedByItsHandler", func(s *reference) core.Transactor { return busyForEver{s} }},

	"keeps rows of a rollback, under stress":   {"Stress", with(keepsRows)},
	"runs Resume from the start, under stress": {"Stress", func(s *reference) core.Transactor { return restarts{s} }},
	"keeps rows of a refusal, under stress":    {"Stress", with(neverUndoes)},
	"forgets the refusal, under stress":        {"Stress", with(undoesAll)},
}

// rememberer keeps the rows of open attempts.
type rememberer struct {
	*reference
	rows sync.Map
}

func (s *rememberer) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	tx, got, err := s.reference.Begin(ctx, c)
	if tx != nil {
		s.rows.Store(c.ID, got.Record)
	}
	return tx, got, err
}

type dirtyReads struct{ rememberer }

func (s *dirtyReads) Find(ctx context.Context, id core.ID) (core.Record, error) {
	if row, ok := s.rows.Load(id); ok {
		return row.(core.Record), nil
	}
	return s.reference.Find(ctx, id)
}

type showsOpenRow struct{ rememberer }

func (s *showsOpenRow) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	got, err := s.reference.Claim(ctx, c)
	if row, ok := s.rows.Load(c.ID); ok && got.Busy {
		got.Busy, got.Record = false, row.(core.Record)
	}
	return got, err
}

// listsNoRollback assumes that no Rollback attempt is ever unknown.
type listsNoRollback struct{ *reference }

func (s listsNoRollback) List(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	records, err := s.reference.List(ctx, within, after, limit)
	return slices.DeleteFunc(records, func(r core.Record) bool { return r.Recovery == core.Rollback }), err
}

// runsCommitted treats a running Rollback record as if its attempt was rolled back.
type runsCommitted struct{ *reference }

func (s runsCommitted) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	got, err := s.reference.Claim(ctx, c)
	if r := got.Record; err == nil && !got.Won && r.Recovery == core.Rollback && r.Stored == core.Running {
		if err := s.Release(ctx, r.Ticket); err != nil {
			return core.Claimed{}, err
		}
		return s.reference.Claim(ctx, c)
	}
	return got, err
}

// busyForEver treats it as if its attempt was under way.
type busyForEver struct{ *reference }

func (s busyForEver) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	tx, got, err := s.reference.Begin(ctx, c)
	if r := got.Record; err == nil && !got.Won && r.Recovery == core.Rollback && r.Stored == core.Running {
		return nil, core.Claimed{Busy: true}, nil
	}
	return tx, got, err
}

type seesNothing struct{ *reference }

func (s seesNothing) InFlight(ctx context.Context, _ core.ID) (bool, error) { return false, ctx.Err() }

type restarts struct{ *reference }

func (s restarts) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	tx, got, err := s.reference.Begin(ctx, c)
	if r := got.Record; err == nil && r.Recovery == core.Resume && r.State() == core.Running && r.LeaseExpired() {
		got.Won = true
		tx = restarted{s.reference, r.Ticket}
	}
	return tx, got, err
}

// restarted is a transaction of a record that is there.
type restarted struct {
	store  *reference
	ticket core.Ticket
}

func (tx restarted) Bind(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, &referenceTx{store: tx.store})
}

func (tx restarted) Seal(ctx context.Context, s core.Seal) (time.Time, error) {
	return time.Time{}, tx.store.Complete(ctx, tx.ticket, *s.Answer)
}

func (tx restarted) Rollback() error { return tx.store.Release(context.Background(), tx.ticket) }

type settlesAtOnce struct{ *reference }

func (s settlesAtOnce) Settle(ctx context.Context, d core.Settlement) (core.Record, error) {
	return s.Store.Settle(ctx, d)
}

// contextBound opens its transaction with the context of the claim, as database/sql suggests.
type contextBound struct{ *reference }

func (s contextBound) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	return wraps{s.reference, func(tx *referenceTx) core.Tx {
		return faultyTx{tx, func(sealCtx context.Context, seal core.Seal) (time.Time, error) {
			if ctx.Err() != nil {
				return time.Time{}, errors.Join(core.ErrAborted, tx.Rollback())
			}
			return tx.Seal(sealCtx, seal)
		}, tx.Rollback}
	}}.Begin(ctx, c)
}

// wraps hands out transactions with a fault.
type wraps struct {
	*reference
	wrap func(*referenceTx) core.Tx
}

// with returns a mutant whose transactions have the fault.
func with(fault func(*referenceTx) core.Tx) func(*reference) core.Transactor {
	return func(s *reference) core.Transactor { return wraps{s, fault} }
}

func (s wraps) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	tx, got, err := s.reference.Begin(ctx, c)
	if tx != nil {
		tx = s.wrap(tx.(*referenceTx))
	}
	return tx, got, err
}

type faultyTx struct {
	core.Tx
	seal     func(context.Context, core.Seal) (time.Time, error)
	rollback func() error
}

func (tx faultyTx) Seal(ctx context.Context, s core.Seal) (time.Time, error) { return tx.seal(ctx, s) }

func (tx faultyTx) Rollback() error { return tx.rollback() }

func keepsKey(tx *referenceTx) core.Tx {
	return faultyTx{tx, tx.Seal, func() error { return nil }}
}

// commitRows commits the rows of a transaction, and nothing else.
func (tx *referenceTx) commitRows() {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	tx.store.effects += tx.effects
	tx.effects = 0
}

func keepsRows(tx *referenceTx) core.Tx {
	return faultyTx{tx, tx.Seal, func() error {
		tx.commitRows()
		return tx.Rollback()
	}}
}

func neverUndoes(tx *referenceTx) core.Tx {
	return faultyTx{tx, func(ctx context.Context, s core.Seal) (time.Time, error) {
		s.Alone = false
		return tx.Seal(ctx, s)
	}, tx.Rollback}
}

func undoesAll(tx *referenceTx) core.Tx {
	return faultyTx{tx, func(ctx context.Context, s core.Seal) (time.Time, error) {
		if s.Alone {
			return time.Time{}, tx.Rollback()
		}
		return tx.Seal(ctx, s)
	}, tx.Rollback}
}

// confirmsAll treats "the transaction is over" as success.
func confirmsAll(tx *referenceTx) core.Tx {
	return faultyTx{tx, func(ctx context.Context, s core.Seal) (time.Time, error) {
		now, _ := tx.Seal(ctx, s)
		return now, nil
	}, tx.Rollback}
}
