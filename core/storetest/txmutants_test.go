package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Transactor.
var txMutants = map[string]mutantOf[*reference, store.Transactor]{
	"shows open rows":                {"Tx/Visible", func(s *reference) store.Transactor { return &dirtyReads{rememberer{reference: s}} }},
	"keeps the key after a rollback": {"Tx/Rollback", with(keepsKey)},
	"keeps rows of a rollback":       {"Tx/Rollback", with(keepsRows)},
	"keeps rows of a refusal":        {"Tx/Undo", with(neverUndoes)},
	"forgets the refusal":            {"Tx/Undo", with(undoesAll)},
	"shows others the open row":      {"Tx/BusyAtOnce", func(s *reference) store.Transactor { return &showsOpenRow{rememberer{reference: s}} }},
	"knows of no open row":           {"Tx/InFlight", func(s *reference) store.Transactor { return seesNothing{s} }},
	"runs Resume from the start":     {"Tx/ExistingRow", func(s *reference) store.Transactor { return restarts{s} }},
	"commits what was rolled back":   {"Tx/OverOnce", with(confirmsAll)},
	"ends with the claim's context":  {"Tx/ClaimContext", func(s *reference) store.Transactor { return contextBound{s} }},
	"settles at once":                {"Tx/Settlement", func(s *reference) store.Transactor { return settlesAtOnce{s} }},
	"lists no committed attempt":     {"Tx/EndedByItsHandler", func(s *reference) store.Transactor { return listsNoRollback{s} }},
	"runs a committed attempt again": {"Tx/EndedByItsHandler", func(s *reference) store.Transactor { return runsCommitted{s} }},
	"calls a committed attempt busy": {"Tx/EndedByItsHandler", func(s *reference) store.Transactor { return busyForEver{s} }},

	"keeps rows of a rollback, under stress":   {"Stress", with(keepsRows)},
	"runs Resume from the start, under stress": {"Stress", func(s *reference) store.Transactor { return restarts{s} }},
	"keeps rows of a refusal, under stress":    {"Stress", with(neverUndoes)},
	"forgets the refusal, under stress":        {"Stress", with(undoesAll)},
}

// rememberer keeps the rows of open attempts.
type rememberer struct {
	*reference
	rows sync.Map
}

func (s *rememberer) Begin(ctx context.Context, c store.Claim) (store.Tx, store.Claimed, error) {
	tx, got, err := s.reference.Begin(ctx, c)
	if tx != nil {
		s.rows.Store(c.ID, got.Record)
	}
	return tx, got, err
}

type dirtyReads struct{ rememberer }

func (s *dirtyReads) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if row, ok := s.rows.Load(id); ok {
		return row.(store.Record), nil
	}
	return s.reference.Find(ctx, id)
}

type showsOpenRow struct{ rememberer }

func (s *showsOpenRow) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.reference.Claim(ctx, c)
	if row, ok := s.rows.Load(c.ID); ok && got.Busy {
		got.Busy, got.Record = false, row.(store.Record)
	}
	return got, err
}

// listsNoRollback assumes that no Rollback attempt is ever unknown.
type listsNoRollback struct{ *reference }

func (s listsNoRollback) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	records, err := s.reference.List(ctx, q)
	return slices.DeleteFunc(records, func(r store.Record) bool { return r.Recovery == store.Rollback }), err
}

// runsCommitted treats a running Rollback record as if its attempt was rolled back.
type runsCommitted struct{ *reference }

func (s runsCommitted) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.reference.Claim(ctx, c)
	if r := got.Record; err == nil && !got.Won && r.Recovery == store.Rollback && r.Stored == store.Running {
		if err := s.Release(ctx, r.Ticket); err != nil {
			return store.Claimed{}, err
		}
		return s.reference.Claim(ctx, c)
	}
	return got, err
}

// busyForEver treats it as if its attempt was under way.
type busyForEver struct{ *reference }

func (s busyForEver) Begin(ctx context.Context, c store.Claim) (store.Tx, store.Claimed, error) {
	tx, got, err := s.reference.Begin(ctx, c)
	if r := got.Record; err == nil && !got.Won && r.Recovery == store.Rollback && r.Stored == store.Running {
		return nil, store.Claimed{Busy: true}, nil
	}
	return tx, got, err
}

type seesNothing struct{ *reference }

func (s seesNothing) InFlight(ctx context.Context, _ store.ID) (bool, error) { return false, ctx.Err() }

type restarts struct{ *reference }

func (s restarts) Begin(ctx context.Context, c store.Claim) (store.Tx, store.Claimed, error) {
	tx, got, err := s.reference.Begin(ctx, c)
	if r := got.Record; err == nil && r.Recovery == store.Resume && r.State() == store.Running && r.LeaseExpired() {
		got.Won = true
		tx = restarted{s.reference, r.Ticket}
	}
	return tx, got, err
}

// restarted is a transaction of a record that is there.
type restarted struct {
	store  *reference
	ticket store.Ticket
}

func (tx restarted) Bind(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, &referenceTx{store: tx.store})
}

func (tx restarted) Seal(ctx context.Context, s store.Seal) (time.Time, error) {
	return time.Time{}, tx.store.Complete(ctx, tx.ticket, *s.Answer)
}

func (tx restarted) Rollback() error { return tx.store.Release(context.Background(), tx.ticket) }

type settlesAtOnce struct{ *reference }

func (s settlesAtOnce) Settle(ctx context.Context, d store.Settlement) (store.Record, error) {
	return s.Store.Settle(ctx, d)
}

// contextBound opens its transaction with the context of the claim, as database/sql suggests.
type contextBound struct{ *reference }

func (s contextBound) Begin(ctx context.Context, c store.Claim) (store.Tx, store.Claimed, error) {
	return wraps{s.reference, func(tx *referenceTx) store.Tx {
		return faultyTx{tx, func(sealCtx context.Context, seal store.Seal) (time.Time, error) {
			if ctx.Err() != nil {
				return time.Time{}, errors.Join(store.ErrAborted, tx.Rollback())
			}
			return tx.Seal(sealCtx, seal)
		}, tx.Rollback}
	}}.Begin(ctx, c)
}

// wraps hands out transactions with a fault.
type wraps struct {
	*reference
	wrap func(*referenceTx) store.Tx
}

// with returns a mutant whose transactions have the fault.
func with(fault func(*referenceTx) store.Tx) func(*reference) store.Transactor {
	return func(s *reference) store.Transactor { return wraps{s, fault} }
}

func (s wraps) Begin(ctx context.Context, c store.Claim) (store.Tx, store.Claimed, error) {
	tx, got, err := s.reference.Begin(ctx, c)
	if tx != nil {
		tx = s.wrap(tx.(*referenceTx))
	}
	return tx, got, err
}

type faultyTx struct {
	store.Tx
	seal     func(context.Context, store.Seal) (time.Time, error)
	rollback func() error
}

func (tx faultyTx) Seal(ctx context.Context, s store.Seal) (time.Time, error) { return tx.seal(ctx, s) }

func (tx faultyTx) Rollback() error { return tx.rollback() }

func keepsKey(tx *referenceTx) store.Tx {
	return faultyTx{tx, tx.Seal, func() error { return nil }}
}

// commitRows commits the rows of a transaction, and nothing else.
func (tx *referenceTx) commitRows() {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	tx.store.effects += tx.effects
	tx.effects = 0
}

func keepsRows(tx *referenceTx) store.Tx {
	return faultyTx{tx, tx.Seal, func() error {
		tx.commitRows()
		return tx.Rollback()
	}}
}

func neverUndoes(tx *referenceTx) store.Tx {
	return faultyTx{tx, func(ctx context.Context, s store.Seal) (time.Time, error) {
		s.Alone = false
		return tx.Seal(ctx, s)
	}, tx.Rollback}
}

func undoesAll(tx *referenceTx) store.Tx {
	return faultyTx{tx, func(ctx context.Context, s store.Seal) (time.Time, error) {
		if s.Alone {
			return time.Time{}, tx.Rollback()
		}
		return tx.Seal(ctx, s)
	}, tx.Rollback}
}

// confirmsAll treats "the transaction is over" as success.
func confirmsAll(tx *referenceTx) store.Tx {
	return faultyTx{tx, func(ctx context.Context, s store.Seal) (time.Time, error) {
		now, _ := tx.Seal(ctx, s)
		return now, nil
	}, tx.Rollback}
}
