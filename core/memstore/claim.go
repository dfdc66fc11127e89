package memstore

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// Claim implements [store.Store]. The error is store.ErrFull if the key is new and the store has no room for it.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if err := alive(ctx); err != nil {
		return store.Claimed{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claim(&c, (*Store).insert)
}

// claim runs a claim; begin stores the row of a first attempt. The error is store.ErrFull if the store would grow beyond its
// limit.
func (s *Store) claim(c *store.Claim, begin func(*Store, *entry)) (store.Claimed, error) {
	now := s.now()
	e := s.records[c.ID]
	switch {
	case s.running[c.ID] != nil:
		return store.Claimed{Busy: true}, nil
	case (e == nil || e.Stored == store.Free) && !c.Trusts(now):
		return store.Claimed{}, store.ErrClock
	case e != nil && e.Stored != store.Free && !c.Window.Has(now): // nothing has expired
		return store.Claimed{Record: e.read(now)}, nil
	case (e == nil || e.state(now) == store.Free) && !s.allows(c, e, now):
		return store.Claimed{KeyRefused: true, Record: store.Record{Now: now}}, nil
	case e == nil:
		if s.count >= s.max && !s.makeRoom(c.Window) {
			return store.Claimed{}, store.ErrFull
		}
		s.count++
		e = newEntry(c, 0, now)
		begin(s, e)
	case e.state(now) == store.Free:
		timed := e.Timed
		references := e.references
		e = newEntry(c, e.Fence, now)
		e.Timed, e.references = e.Timed || timed, references
		begin(s, e)
	case e.canTakeOver(c, now) && e.held:
		return store.Claimed{Busy: true}, nil
	case e.canTakeOver(c, now):
		e.Ends = e.EndsBefore()
		e.lead(c, now)
	default:
		return store.Claimed{Record: e.read(now)}, nil
	}
	return store.Claimed{Won: true, Record: e.read(now)}, nil
}

// hideUntilSeal keeps the row of a first attempt out of sight until its first seal.
func (s *Store) hideUntilSeal(e *entry) { s.running[e.ID] = e }

// insert stores a row in the place of a free one, or of none.
func (s *Store) insert(e *entry) {
	if free := s.records[e.ID]; free != nil {
		s.unqueue(free)
	}
	s.records[e.ID] = e
	s.opened(e)
}

// newEntry returns the row of a new command. Of an earlier command with the same key only the fence is kept, so that no
// write and no settlement of that command can change this one.
func newEntry(c *store.Claim, fence int64, now time.Time) *entry {
	e := &entry{Record: store.Record{
		Ticket: store.Ticket{ID: c.ID, Fence: fence},
		Scope:  c.Scope, Realm: c.Realm, Method: c.Method, Route: c.Route, Recovery: c.Recovery, Hash: c.Hash,
		Stored: store.Running, Timed: c.Key.Timed, CreatedAt: now,
	}}
	e.lead(c, now)
	return e
}

// lead makes c the row's attempt.
func (e *entry) lead(c *store.Claim, now time.Time) {
	e.Owner = c.Owner
	e.Fence++
	e.Attempts++
	e.Traceparent = c.Traceparent
	e.Deadline = now.Add(c.Deadline)
	e.renew(c.Lease, now)
}

// canTakeOver reports whether c may continue after the row's last attempt: that attempt has ended, both are Resume, and
// both run the same command.
func (e *entry) canTakeOver(c *store.Claim, now time.Time) bool {
	return e.Stored == store.Running && !now.Before(e.NextAttempt(c.Pause)) &&
		e.Recovery == store.Resume && c.Recovery == store.Resume && e.Hash == c.Hash
}
