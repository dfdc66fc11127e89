package gormstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// begin claims for an attempt that writes nothing to be seen before its first seal: it takes the key's lock, and looks at
// the record. A record that is seen decides; the lock decides only without one. An operation that can be resumed is only
// returned. On PostgreSQL the first segment is open behind it. On SQLite it holds the one writer from its begin on, and a
// Resume attempt opens it when it needs it.
func (s *Store) begin(ctx context.Context, c store.Claim) (a *attempt, claimed store.Claimed, err error) {
	if err := s.check(ctx); err != nil {
		return nil, store.Claimed{}, err
	}
	if s.db.Dialect.OneWriter {
		return s.beginInProcess(ctx, c)
	}
	if c.Recovery == store.Resume {
		err = s.db.Keep(ctx)
	}
	if err == nil {
		a, claimed, err = s.enterAndBegin(ctx, c)
	}
	if errors.Is(err, txn.ErrRace) { // other claims won each time
		return nil, store.Claimed{Busy: true}, nil
	}
	return a, claimed, err
}

// beginInProcess is begin where there is one writer: neither a repeat nor a look waits for it.
func (s *Store) beginInProcess(ctx context.Context, c store.Claim) (a *attempt, claimed store.Claimed, err error) {
	l := &firstLook{attempt: attempt{store: s, claim: c, fence: 1}}
	l.lock = s.db.Process.Reserve(c.ID, c.Owner)
	defer func() {
		if a == nil {
			s.db.Process.Unreserve(c.ID, c.Owner)
		}
	}()
	look, row, args := l.look()
	if err := s.db.QueryRow(ctx, s.db.Pool, look, args...).Scan(row...); err != nil {
		return nil, store.Claimed{}, err
	}
	if claimed, err = l.decide(ctx); err != nil || !claimed.Won {
		return nil, claimed, err
	}
	if c.Recovery == store.Rollback {
		err = l.attempt.open(ctx)
	}
	if err != nil {
		return nil, store.Claimed{}, err
	}
	return &l.attempt, claimed, nil
}

// enterAndBegin is begin where attempts have places. The record of a key that this process has seen is read first, without a
// transaction.
func (s *Store) enterAndBegin(ctx context.Context, c store.Claim) (a *attempt, claimed store.Claimed, err error) {
	patience := txn.TimeLeft(ctx)
	look := func(ctx context.Context) (store.Claimed, error) { return s.peek(ctx, c) }
	if claimed, err := s.db.EnterOrLook(ctx, look); err != nil || txn.IsThere(claimed) {
		return nil, claimed, err
	}
	if s.db.MayClaimInline() {
		return s.beginInPlace(ctx, c)
	}
	begun, err := txn.Behind(ctx, s.db, patience, func(ctx context.Context) (b begun, err error) {
		b.attempt, b.claimed, err = s.beginInPlace(ctx, c)
		return b, err
	}, begun.undo)
	return begun.attempt, begun.claimed, err
}

// begun is what a begin returns.
type begun struct {
	attempt *attempt
	claimed store.Claimed
}

// undo undoes one for which nobody waits any more.
func (b begun) undo() {
	if b.attempt != nil {
		_ = b.attempt.Rollback()
	}
}

// beginInPlace is enterAndBegin for who has a place, and gives it up unless there is an attempt.
func (s *Store) beginInPlace(ctx context.Context, c store.Claim) (a *attempt, claimed store.Claimed, err error) {
	var open *sql.Conn
	defer func() {
		s.db.NoteEnd(ctx, err)
		if a == nil {
			s.recent.addFound(c.ID, claimed.Record)
		}
		switch {
		case a != nil:
		case open != nil: // the answer does not wait for it
			go func() {
				defer s.db.LeaveAttempt()
				txn.Rollback(open)
			}()
		default: // a panic, too
			s.db.LeaveAttempt()
		}
	}()
	if known, _ := s.recent.lookUp(c.ID); known { // a repeat needs no transaction
		if claimed, err = s.lookFirst(ctx, c); err != nil || txn.IsThere(claimed) {
			return nil, claimed, err
		}
	}
	for try := range 2 { // as in Claim
		err = txn.Retry(ctx, func() (err error) {
			a, open, claimed, err = s.openAndLook(ctx, c)
			return err
		})
		again := claimed.KeyRefused || claimed.Busy && try+1 < s.db.Dialect.LockTries
		if err != nil || !again {
			break
		}
		if open != nil {
			txn.Rollback(open)
			open = nil
		}
	}
	return a, claimed, err
}

// openAndLook opens the transaction of an attempt. If it finds a record, or a running attempt, it returns the connection,
// whose transaction is still open, and has written nothing.
func (s *Store) openAndLook(ctx context.Context, c store.Claim) (
	a *attempt, open *sql.Conn, claimed store.Claimed, err error,
) {
	own, err := s.db.Pool.Conn(ctx)
	if err != nil {
		return nil, nil, store.Claimed{}, err
	}
	defer func() {
		if a == nil && open == nil {
			txn.Undo(own, err)
		}
	}()
	if err = txn.Sends(ctx, own, lockFirst); err != nil {
		return nil, nil, store.Claimed{}, err
	}
	l := &firstLook{attempt: attempt{store: s, claim: c, fence: 1}}
	if err := l.lockAndLook(ctx, own); err != nil {
		return nil, nil, store.Claimed{}, err
	}
	switch claimed, err = l.decide(ctx); {
	case err == nil && claimed.Won:
		a = &l.attempt
		a.last, a.isOpen = s.db.NewTx(own, &a.first), true
		a.last.Mark = l.mark
	case err == nil && txn.IsThere(claimed) && (!l.lock || claimed.Record.State() == store.Completed):
		open = own // no repeat of it needs the lock; else ROLLBACK comes first, so that none finds it busy
	}
	return a, open, claimed, err
}

// firstLook is what the first message of an attempt reads, in one piece of memory with the attempt.
type firstLook struct {
	attempt attempt
	lock    bool
	now, at pgtype.Int8 // when the lock was tried, and when the record was read
	floor   floor
	mark    txn.Mark
	record  recordScan
}

// lockAndLook begins the transaction of an attempt, tries the key's lock, and looks at the record: one round trip.
func (l *firstLook) lockAndLook(ctx context.Context, own *sql.Conn) error {
	db := l.attempt.store.db
	if err := db.ProbeGuards(ctx, own); err != nil {
		return err
	}
	calls, err := l.calls(ctx, own)
	if err != nil {
		return err
	}
	return txn.Ask(ctx, own, db.Opening(own, &l.mark, calls...)...)
}

// calls are the lock and the look: two statements, so that the look sees everything that was committed before the lock was
// taken.
func (l *firstLook) calls(ctx context.Context, own *sql.Conn) ([]txn.Call, error) {
	db, c := l.attempt.store.db, &l.attempt.claim
	guards := append(db.Guards(c.Deadline), txn.LockKey(c.ID))
	first, err := db.CallOf(ctx, own, lockFirst, l.mark.Targets(&l.lock, &l.now), guards...)
	if err != nil {
		return nil, err
	}
	look, row, args := l.look()
	second, err := db.CallOf(ctx, own, look, row, args...)
	return []txn.Call{first, second}, err
}

// look is the look at the record.
func (l *firstLook) look() (name txn.Statement, row, args []any) {
	c := &l.attempt.claim
	if floor := floorName(*c); floor != "" {
		return lookTimed, l.record.targets(&l.at, &l.floor), []any{c.ID[:], floor}
	}
	return lookFirst, l.record.targets(&l.at), []any{c.ID[:]}
}

// decide says how a claim ends whose key and record were found like this.
func (l *firstLook) decide(ctx context.Context) (store.Claimed, error) {
	if !l.now.Valid { // the lock is this process's
		l.now = l.at
	}
	a, c, now, there := &l.attempt, &l.attempt.claim, txn.Time(l.now), l.record.id != nil
	a.first.attempt = a
	var found store.Record
	var err error
	switch {
	case now.IsZero():
		return store.Claimed{}, txn.ErrNoWrites
	case there:
		found, err = a.store.thereIs(ctx, &l.record, txn.Time(l.at))
		if err != nil || !takeable(found, *c) || found.State() != store.Free { // the last one is resumable
			return store.Claimed{Record: found}, err
		}
		a.freeFence, a.fence, a.timed, a.stepped = found.Fence, found.Fence+1, found.Timed, found.Recovery == store.Resume
	}
	switch {
	case !l.lock:
		return store.Claimed{Busy: true}, nil
	case !there && !c.Trusts(now):
		return store.Claimed{}, store.ErrClock
	case !there && !c.Key.Allows(now, l.floor.Time):
		return keyRefused(now), nil
	case there:
		if hidden, err := outside(found, *c); hidden {
			return store.Claimed{Record: found}, err
		}
		if refuses(found, *c, l.floor) {
			return keyRefused(now), nil
		}
	}
	won := wonRecord(*c, a.fence, now)
	won.Timed = a.timed || c.Key.Timed
	return store.Claimed{Won: true, Record: won}, nil
}

// open opens a segment; a.mu is held.
func (a *attempt) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, txn.EndPatience)
	defer cancel()
	leave, err := a.store.db.EnterSegment(ctx)
	if err != nil {
		return err
	}
	entry := &a.first
	if a.sealed {
		entry = &segment{attempt: a}
	}
	var t *txn.Tx
	err = txn.Retry(ctx, func() error {
		t, err = a.store.db.Begin(ctx, entry, func(t *txn.Tx) error { return a.beginSegment(ctx, t) })
		return err
	})
	if err != nil {
		leave()
		if txn.IsConflict(err) {
			err = txn.NotCommitted(err)
		}
		return err
	}
	t.LeaveLine = leave
	t.During(a.ctx)
	a.last, a.isOpen = t, true
	return nil
}

// beginSegment opens a transaction that has seen no record, or one of a segment behind the first seal. The latter waits for
// the key's lock: a repeat that looks holds it for a moment. From then on the operation cannot be taken over until the
// segment ends.
func (a *attempt) beginSegment(ctx context.Context, t *txn.Tx) error {
	db, own, idle := a.store.db, t.Conn.SQL, max(txn.TimeLeft(ctx), a.claim.Deadline)
	if !a.sealed {
		return db.BeginGuarded(ctx, own, idle, &t.Mark, nil)
	}
	var mine int
	ask, err := db.CallOf(ctx, own, ownsRecord, []any{&mine}, ownedBy(a.ticket())...)
	if err == nil {
		err = db.BeginGuarded(ctx, own, idle, &t.Mark, txn.LockKey(a.claim.ID), ask)
	}
	if err == nil && mine == 0 {
		err = store.ErrStale
	}
	return err
}
