package gormstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// claimArgs are $1 to $17 of takeOver, and of insertRecord on SQLite.
func claimArgs(c store.Claim) []any {
	return append(make([]any, 0, 24), // with room for the arguments of the longest statement
		c.ID[:], c.Scope[:], c.Owner[:], int64(c.Recovery), c.Method, c.Route, int64(c.Hash.Version), c.Hash.Sum[:],
		c.Lease.Microseconds(), c.Deadline.Microseconds(), c.Realm[:], txn.Micros(c.Window.From),
		txn.Micros(c.Key.Valid.From), latestOf(c), floorName(c), txn.Micros(c.Key.Made), c.Key.Timed)
}

func takeOverArgs(c store.Claim, seen store.Record) []any {
	return append(claimArgs(c), seen.Fence, txn.Latest(c.Window), seen.State() == store.Free, c.Traceparent, seen.EndsBefore())
}

// wonRecord is the record that a claim has just made.
func wonRecord(c store.Claim, fence int64, now time.Time) store.Record {
	return store.Record{
		Ticket: store.Ticket{ID: c.ID, Owner: c.Owner, Fence: fence}, Scope: c.Scope, Realm: c.Realm,
		Method: c.Method, Route: c.Route, Recovery: c.Recovery, Hash: c.Hash, Stored: store.Running, Attempts: 1,
		Timed: c.Key.Timed, Traceparent: c.Traceparent, CreatedAt: now, LeaseUntil: now.Add(c.Lease),
		Deadline: now.Add(c.Deadline), Now: now,
	}
}

// Claim implements [store.Store]. On PostgreSQL, over pgx, a first attempt takes one message, and a replay too. A replay
// takes two if this process has not seen the key lately.
func (s *Store) Claim(ctx context.Context, c store.Claim) (claimed store.Claimed, err error) {
	sent := time.Now()
	defer func() {
		if claimed.Won {
			s.sealer.expect(claimed.Record.Ticket, sent.Add(c.Deadline))
		}
	}()
	if err := s.check(ctx); err != nil {
		return store.Claimed{}, err
	}
	if s.db.Dialect.OneWriter {
		// A look at the record needs no writer, so that replays do not wait for one. It never decides a claim.
		if claimed, err = s.peek(ctx, c); err != nil || txn.IsThere(claimed) {
			return claimed, err
		}
	}
	if err := s.db.Keep(ctx); err != nil {
		return store.Claimed{}, err
	}
	patience := txn.TimeLeft(ctx)
	if err := s.db.EnterClaim(ctx); err != nil {
		return store.Claimed{}, err
	}
	if s.db.MayClaimInline() {
		return s.claimInPlace(ctx, c)
	}
	return txn.Behind(ctx, s.db, patience, func(ctx context.Context) (store.Claimed, error) {
		return s.claimInPlace(ctx, c)
	}, func(store.Claimed) {}) // who has got an error gives the claim back
}

// claimInPlace is Claim for who has a place. It gives the place up.
func (s *Store) claimInPlace(ctx context.Context, c store.Claim) (claimed store.Claimed, err error) {
	defer func() {
		s.db.NoteEnd(ctx, err)
		s.db.LeaveClaim()
		s.recent.addFound(c.ID, claimed.Record)
	}()
	known, _ := s.recent.lookUp(c.ID)
	for range 2 { // the first claim may get the lock of a record that was committed after its snapshot
		err = s.db.Write(ctx, func(q txn.Querier) error {
			claimed, err = s.claimAlone(ctx, q, c, known)
			return err
		})
		if err != nil || !claimed.KeyRefused {
			break
		}
	}
	if errors.Is(err, txn.ErrRace) { // other claims won each time
		return store.Claimed{Busy: true}, nil
	}
	return claimed, err
}

// claim claims on q.
func (s *Store) claim(ctx context.Context, q txn.Querier, c store.Claim) (claimed store.Claimed, err error) {
	claim := s.insertOrTake
	if !s.db.Dialect.Returns {
		claim = s.claimAndAsk
	}
	for try := range txn.MaxTries { // who only looks, or loses, holds the lock for a moment; what was met may have gone
		claimed, err = claim(ctx, q, c)
		if again := errors.Is(err, txn.ErrRace) || claimed.Busy && try == 0; !again {
			return claimed, err
		}
	}
	return claimed, err
}

// insertOrTake claims where the database's statements answer what they have done.
func (s *Store) insertOrTake(ctx context.Context, q txn.Querier, c store.Claim) (store.Claimed, error) {
	claimed, err := s.insert(ctx, q, c)
	if err != nil || claimed.Won {
		return claimed, err
	}
	return s.take(ctx, q, c)
}

// claimAlone is claim outside an attempt's transaction. For a key that was seen before it looks first.
func (s *Store) claimAlone(
	ctx context.Context, q txn.Querier, c store.Claim, known bool,
) (claimed store.Claimed, err error) {
	if known {
		if claimed, err = s.lookFirst(ctx, c); err != nil || txn.IsThere(claimed) {
			return claimed, err
		}
	}
	return s.claim(ctx, q, c)
}

// insert wins a key that has no record. Otherwise it says nothing.
func (s *Store) insert(ctx context.Context, q txn.Querier, c store.Claim) (store.Claimed, error) {
	from, to := txn.Micros(c.Window.From), int64(math.MaxInt64)
	floor, name := floorName(c), insertRecord
	if floor != "" {
		from, to, name = max(from, txn.Micros(c.Key.Valid.From)), latestOf(c), insertTimed
	}
	args := append(make([]any, 0, 17),
		c.ID[:], c.Scope[:], c.Owner[:], int64(c.Recovery), c.Method, c.Route, int64(c.Hash.Version), c.Hash.Sum[:],
		c.Lease.Microseconds(), c.Deadline.Microseconds(), c.Realm[:], from, to, c.Key.Timed, c.Traceparent)
	if floor != "" {
		args = append(args, txn.Micros(c.Key.Made), floor)
	}
	var now pgtype.Int8
	var by txn.Server
	err := s.db.AskLocked(ctx, q, txn.LockKey(c.ID), name, &by, []any{&now, &by.PID, &by.Started}, args...)
	if err != nil || !now.Valid {
		return store.Claimed{}, err
	}
	return s.won(ctx, wonRecord(c, 1, txn.Time(now)), by)
}

// take looks at what a claim has met, and takes the record over if the claim may. ErrRace: there is none, and nobody is at
// work.
func (s *Store) take(ctx context.Context, q txn.Querier, c store.Claim) (store.Claimed, error) {
	var at pgtype.Int8
	var floor floor
	var scan recordScan
	err := s.db.QueryRow(ctx, q, lookTimed, c.ID[:], floorName(c)).Scan(scan.targets(&at, &floor)...)
	if err != nil {
		return store.Claimed{}, err
	}
	now := txn.Time(at)
	if now.IsZero() { // a pooler or a balancer may have sent the look to a standby (F-8)
		return store.Claimed{}, txn.ErrNoWrites
	}
	if scan.id == nil {
		return s.absent(ctx, q, c, now, floor)
	}
	rec, err := s.thereIs(ctx, &scan, now)
	if err == nil && ours(rec, c) { // the first sending may not have waited for the standby
		if err = s.db.Confirm(ctx, scan.Started.Int64); err != nil {
			err = fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
		}
		return store.Claimed{Won: err == nil, Record: rec}, err
	}
	if err != nil || !takeable(rec, c) {
		return store.Claimed{Record: rec}, err
	}

	if hidden, err := outside(rec, c); hidden {
		return store.Claimed{Record: rec}, err
	}
	if refuses(rec, c, floor) {
		return keyRefused(rec.Now), nil
	}
	return s.takeOver(ctx, q, c, rec)
}

// absent is the outcome of a claim that has inserted nothing where no record is there.
func (s *Store) absent(
	ctx context.Context, q txn.Querier, c store.Claim, now time.Time, floor floor,
) (store.Claimed, error) {
	busy, err := s.isHeld(ctx, q, c.ID)
	switch {
	case err != nil || busy:
		return store.Claimed{Busy: busy}, err
	case !c.Trusts(now):
		return store.Claimed{}, store.ErrClock
	case !c.Key.Allows(now, floor.Time):
		return keyRefused(now), nil
	}
	return store.Claimed{}, txn.ErrRace
}

// won is the outcome of a claim that has won: not before the standby has it, because the handler may call a provider.
func (s *Store) won(ctx context.Context, rec store.Record, by txn.Server) (store.Claimed, error) {
	if err := s.db.ConfirmWritten(ctx, by); err != nil {
		return store.Claimed{}, fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
	}
	return store.Claimed{Won: true, Record: rec}, nil
}

// takeOver gives a record to a claim, as the record was seen: free, or resumable. It fails with txn.ErrRace if the record
// has changed since.
func (s *Store) takeOver(ctx context.Context, q txn.Querier, c store.Claim, rec store.Record) (store.Claimed, error) {
	if err := s.forgetSteps(ctx, q, rec, c.Owner); err != nil {
		return store.Claimed{}, err
	}
	if !s.db.Dialect.Returns {
		return s.takeOverAndAsk(ctx, q, c, rec)
	}
	var fence, attempts, created, now pgtype.Int8
	var by txn.Server
	row := []any{&fence, &attempts, &created, &now, &by.PID, &by.Started}
	if err := s.db.AskLocked(ctx, q, txn.LockKey(c.ID), takeOver, &by, row, takeOverArgs(c, rec)...); err != nil {
		return store.Claimed{}, err
	}
	if fence.Valid {
		won := wonRecord(c, fence.Int64, txn.Time(now))
		won.Ends = rec.EndsBefore()
		won.CreatedAt, won.Attempts = txn.Time(created), int(attempts.Int64)
		won.Timed = rec.Timed || c.Key.Timed && rec.State() == store.Free
		return s.won(ctx, won, by)
	}
	busy, err := s.isHeld(ctx, q, c.ID)
	if err == nil && !busy {
		err = txn.ErrRace // the record was taken, settled or dropped in between
	}
	return store.Claimed{Busy: busy}, err
}

// thereIs returns the existing record that a claim met. A repeat may be answered from it.
func (s *Store) thereIs(ctx context.Context, scan *recordScan, now time.Time) (store.Record, error) {
	rec, err := scan.record(ctx, s.sealer, now)
	if err == nil && hasOutcome(rec) {
		err = s.db.ConfirmRead(ctx, scan.Server)
	}
	return rec, err
}

func (s *Store) claimAndAsk(ctx context.Context, q txn.Querier, c store.Claim) (store.Claimed, error) {
	n, err := s.db.Exec(ctx, q, insertRecord, append(claimArgs(c), c.Traceparent, txn.LockKey(c.ID))...)
	if err != nil && !s.db.Dialect.IsThere(err) {
		return store.Claimed{}, err
	}
	met := err != nil
	rec, err := s.find(ctx, q, c.ID)
	switch {
	case met && errors.Is(err, store.ErrNotFound): // it was dropped in between
		return store.Claimed{}, txn.ErrRace
	case n == 0 && errors.Is(err, store.ErrNotFound): // a lock, or a time
		if locked, _, err := s.db.TryLock(ctx, q, txn.LockKey(c.ID)); !locked || err != nil {
			return store.Claimed{Busy: !locked}, err
		}
		return s.refused(ctx, q, c)
	case err != nil:
		return store.Claimed{}, err
	case n == 1:
		return store.Claimed{Won: true, Record: rec}, nil
	case !takeable(rec, c):
		return store.Claimed{Record: rec}, nil
	}
	if hidden, err := outside(rec, c); hidden {
		return store.Claimed{Record: rec}, err
	}
	if _, floor, err := s.readFloor(ctx, q, c); err != nil || refuses(rec, c, floor) {
		return keyRefused(rec.Now), err
	}
	return s.takeOver(ctx, q, c, rec)
}

func (s *Store) takeOverAndAsk(ctx context.Context, q txn.Querier, c store.Claim, rec store.Record) (store.Claimed, error) {
	n, err := s.db.Exec(ctx, q, takeOver, append(takeOverArgs(c, rec), txn.LockKey(c.ID))...)
	if err == nil && n == 0 { // another claim was quicker, or the clock has gone back a little
		err = txn.ErrRace
	}
	if err != nil {
		return store.Claimed{}, err
	}
	rec, err = s.find(ctx, q, c.ID)
	return store.Claimed{Won: true, Record: rec}, err
}

// ours reports whether this claim itself has made the record. That happens if database/sql sends the statement again
// after a connection broke. No two claims have the same owner.
func ours(rec store.Record, c store.Claim) bool {
	return rec.Owner == c.Owner && rec.Stored == store.Running
}

// takeable reports whether the claim can take the record over. The statement takeOver checks it again.
func takeable(rec store.Record, c store.Claim) bool {
	return rec.State() == store.Free || isResumable(rec, c)
}

// isResumable reports whether the claim may continue the operation of a record.
func isResumable(rec store.Record, c store.Claim) bool {
	return rec.Stored == store.Running && rec.Recovery == store.Resume && !rec.Now.Before(rec.NextAttempt(c.Pause)) &&
		c.Recovery == store.Resume && rec.Hash == c.Hash
}

// outside reports whether a record must not be taken over because the database's clock is outside the claim's window (T-5).
// The statement takeOver checks it again.
func outside(rec store.Record, c store.Claim) (bool, error) {
	if rec.Stored == store.Free {
		if !c.Trusts(rec.Now) {
			return true, store.ErrClock
		}
		return false, nil
	}
	return !c.Window.Has(rec.Now), nil
}

// InFlight implements [store.Attempts]: an attempt holds the record's lock.
func (s *Store) InFlight(ctx context.Context, id store.ID) (bool, error) {
	if s.db.Process.IsRunning(id) {
		return true, nil
	}
	var taken bool
	err := s.db.OnPool(ctx, func(q txn.Querier) (err error) {
		taken, err = s.isHeld(ctx, q, id)
		return err
	})
	return taken, err
}

// Apart implements [store.Nodes].
func (s *Store) Apart(ctx context.Context) (apart bool, err error) {
	if s.db.Dialect.Apart == nil {
		return false, nil
	}
	err = s.db.OnPool(ctx, func(q txn.Querier) (err error) {
		apart, err = s.db.Dialect.Apart(ctx, q)
		return err
	})
	return apart, err
}

// isHeld reports whether another transaction holds the record's lock.
func (s *Store) isHeld(ctx context.Context, q txn.Querier, id store.ID) (taken bool, err error) {
	err = s.db.QueryRow(ctx, q, held, txn.LockHalves(id)...).Scan(&taken)
	return taken, err
}

// hasOutcome reports whether a repeat is told from a record how its command ended. A tombstone tells it too, and an erasure
// may have made one right after COMMIT.
func hasOutcome(rec store.Record) bool {
	return rec.Stored == store.Completed || rec.Stored == store.Expired
}
