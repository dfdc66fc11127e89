package memstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/auth19/idem/core/store"
)

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, t store.Ticket, lease time.Duration) error {
	return s.write(ctx, t, func(e *entry, now time.Time) error {
		if e.Stored != store.Running {
			return store.ErrStale
		}
		e.renew(lease, now)
		return nil
	})
}

// End implements [store.Store]. It waits for nothing: every claim is visible as soon as it is made.
func (s *Store) End(ctx context.Context, t store.Ticket, end store.Ending) error {
	if end.State == store.Free {
		return s.release(ctx, t)
	}
	return s.write(ctx, t, func(e *entry, now time.Time) error {
		switch {
		case end.State == store.Completed:
			return e.record(end.Answer, now)
		case e.Stored == store.Running && end.State == store.Running:
			e.ended(end.Ends)
			e.renew(0, now)
			return nil
		case e.Stored == store.Running:
			e.ended(end.Ends)
			e.Stored = store.Unknown
			return nil
		case e.Stored == store.Unknown && end.State == store.Unknown: // again
			return nil
		}
		return store.ErrStale
	})
}

// record records the answer of the row's attempt.
func (e *entry) record(c store.Completion, now time.Time) error {
	switch {
	case e.isOpen():
		e.complete(c, now)
		return nil
	case e.isAnswered(): // again: the first answer stands
		return nil
	}
	return store.ErrStale
}

func (e *entry) isAnswered() bool { return e.Stored == store.Completed || e.Stored == store.Expired }

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, lost []store.Ticket) (err error) {
	for _, t := range lost {
		released := s.release(ctx, store.Ticket{ID: t.ID, Owner: t.Owner})
		if released != nil && !errors.Is(released, store.ErrStale) {
			return released
		}
		err = cmp.Or(err, released)
	}
	return err
}

// release frees the key of an attempt; without a fence, it takes its claim back.
func (s *Store) release(ctx context.Context, t store.Ticket) error {
	return s.do(ctx, func(now time.Time) error {
		e := s.records[t.ID]
		switch {
		case e == nil:
			return nil
		case t.Fence == 0 && e.Owner != t.Owner && (e.at(now).State() == store.Free || e.isIdle(now)):
			return nil // it has not won, and no claim comes late
		case e.Owner != t.Owner || t.Fence != 0 && t.Fence != e.Fence:
			return store.ErrStale
		case e.Stored == store.Free: // again
			return nil
		case e.Stored != store.Running:
			return store.ErrStale
		case t.Fence == 0 && e.Recovery == store.Resume && e.Fence > 1:
			e.LeaseUntil = now
			e.Attempts = max(e.Attempts-1, 1) // a released attempt does not count; the first one does, however often
		default:
			e.free(now)
		}
		return nil
	})
}

// write runs a write of the attempt with ticket t on its row. The error is store.ErrStale if the row is gone.
func (s *Store) write(ctx context.Context, t store.Ticket, do func(*entry, time.Time) error) error {
	return s.do(ctx, func(now time.Time) error {
		e := s.records[t.ID]
		if e == nil || e.Ticket != t {
			return store.ErrStale
		}
		return do(e, now)
	})
}
