package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// Annotate implements [store.Operations].
func (s *Store) Annotate(ctx context.Context, n store.Note) error {
	n.Kind, n.Fence, n.Decision = store.PlainNote, 0, nil
	return s.noted(ctx, n, func(e *entry, _ time.Time) error {
		if !e.isOpen() {
			return store.ErrNotSettleable
		}
		return nil
	})
}

// Propose implements [store.Proposals].
func (s *Store) Propose(ctx context.Context, n store.Note, w store.Window) error {
	n.Kind = store.OpenProposal
	return s.noted(ctx, n, func(e *entry, now time.Time) error {
		err := settleable(e.read(now), n.Fence, w)
		same := func(o store.Note) bool { return o.Kind == n.Kind && o.Fence == n.Fence }
		if err == nil && slices.ContainsFunc(s.notes[n.ID], same) {
			err = store.ErrStale
		}
		return err
	})
}

// Withdraw implements [store.Proposals].
func (s *Store) Withdraw(ctx context.Context, token [16]byte, n store.Note) error {
	n.Kind = store.WithdrawalNote
	return s.noted(ctx, n, func(e *entry, _ time.Time) error {
		p := s.proposal(n.ID, token, n.Fence)
		if p == nil || e.Fence != n.Fence || !e.isOpen() {
			return store.ErrStale
		}
		p.Kind = store.Withdrawn
		return nil
	})
}

// noted adds a note, unless it is there or may not be added.
func (s *Store) noted(ctx context.Context, n store.Note, may func(e *entry, now time.Time) error) error {
	return s.do(ctx, func(now time.Time) error {
		e := s.records[n.ID]
		switch {
		case slices.ContainsFunc(s.notes[n.ID], func(o store.Note) bool { return o.Token == n.Token }):
			return nil
		case e == nil:
			return store.ErrNotFound
		}
		if err := may(e, now); err != nil {
			return err
		}
		n.At, n.Decision = now, slices.Clone(n.Decision)
		s.notes[n.ID] = append(s.notes[n.ID], n)
		return nil
	})
}

// proposal is an open proposal about a fence; nil: there is none with this token.
func (s *Store) proposal(id store.ID, token [16]byte, fence int64) *store.Note {
	i := slices.IndexFunc(s.notes[id], func(n store.Note) bool {
		return n.Token == token && n.Kind == store.OpenProposal && n.Fence == fence
	})
	if i < 0 {
		return nil
	}
	return &s.notes[id][i]
}

// Notes implements [store.Operations].
func (s *Store) Notes(ctx context.Context, ids []store.ID) (map[store.ID][]store.Note, error) {
	return get(ctx, s, func(time.Time) (map[store.ID][]store.Note, error) {
		notes := map[store.ID][]store.Note{}
		for _, id := range ids {
			if of := s.notes[id]; len(of) > 0 {
				notes[id] = slices.Clone(of)
			}
		}
		return notes, nil
	})
}

// blankNotes leaves of an operation's notes who and when. It reports whether there was a text.
func (s *Store) blankNotes(id store.ID) (found bool) {
	for i := range s.notes[id] {
		n := &s.notes[id][i]
		found = found || n.Text != "" || n.Decision != nil
		n.Text, n.Decision = "", nil
	}
	return found
}
