package memstore

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// Claim implements [store.Store]. The error is store.ErrFull if the key is new and the store has no room for it.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	return get(ctx, s, func(now time.Time) (store.Claimed, error) { return s.claim(&c, s.records, now) })
}

// claim runs a claim. The row of a first attempt goes into began. The error is store.ErrFull if the store would grow beyond
// its limit.
func (s *Store) claim(c *store.Claim, began map[store.ID]*entry, now time.Time) (store.Claimed, error) {
	e := s.records[c.ID]
	switch {
	case s.running[c.ID] != nil:
		return store.Claimed{Busy: true}, nil
	case (e == nil || e.Stored == store.Free) && !c.Trusts(now):
		return store.Claimed{}, store.ErrClock
	case e != nil && e.Stored != store.Free && !c.Window.Has(now): // nothing has expired
		return store.Claimed{Record: e.read(now)}, nil
	case (e == nil || e.at(now).State() == store.Free) && !s.allows(c, e, now):
		return store.Claimed{KeyRefused: true, Record: store.Record{Now: now}}, nil
	case e == nil:
		if s.count >= s.max && !s.makeRoom(c.Window, now) {
			return store.Claimed{}, store.ErrFull
		}
		s.count++
		e = newEntry(c, 0, now)
		began[e.ID] = e
	case e.at(now).State() == store.Free:
		free := e
		e = newEntry(c, free.Fence, now)
		e.Timed, e.references = e.Timed || free.Timed, free.references
		began[e.ID] = e
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

// renew lets the lease begin anew; 0: it yields. It ends with the deadline, and never earlier because the clock is behind.
func (e *entry) renew(lease time.Duration, now time.Time) {
	if until := now.Add(lease); lease == 0 || until.After(e.LeaseUntil) {
		e.LeaseUntil = until
	}
	if e.LeaseUntil.After(e.Deadline) {
		e.LeaseUntil = e.Deadline
	}
}

// canTakeOver reports whether c may continue after the row's last attempt: that attempt has ended, both are Resume, and
// both run the same command.
func (e *entry) canTakeOver(c *store.Claim, now time.Time) bool {
	return e.Stored == store.Running && !now.Before(e.NextAttempt(c.Pause)) &&
		e.Recovery == store.Resume && c.Recovery == store.Resume && e.Hash == c.Hash
}

// makeRoom drops records that say nothing any more: those past their time, and failing that the longest freed key, which
// costs nothing but the memory of its fence. False if all records are needed (T-4).
func (s *Store) makeRoom(w store.Window, now time.Time) bool {
	if w.Has(now) {
		s.sweep(now, len(s.records))
	}
	var oldest *entry
	for _, e := range s.records {
		if e.Stored == store.Free && (oldest == nil || e.PurgeAt.Before(oldest.PurgeAt)) && s.running[e.ID] == nil {
			oldest = e
		}
	}
	if s.count >= s.max && oldest != nil {
		s.drop(oldest)
	}
	return s.count < s.max
}
