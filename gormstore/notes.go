package gormstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Annotate implements [store.Operations].
func (s *Store) Annotate(ctx context.Context, n store.Note) error {
	n.Kind, n.Fence, n.Decision = store.PlainNote, 0, nil
	return s.db.Write(ctx, func(q txn.Querier) error { return s.annotate(ctx, q, n, store.Window{}) })
}

// Propose implements [store.Proposals].
func (s *Store) Propose(ctx context.Context, n store.Note, w store.Window) error {
	n.Kind = store.OpenProposal
	if s.sealer.on {
		box, err := s.sealer.seal(ctx, time.Time{}, n.Decision, proposalData(n.ID, n.Token, n.Fence))
		if err != nil {
			return err
		}
		n.Decision = box
	}
	return s.joined(ctx, func(q txn.Querier) error { return s.annotate(ctx, q, n, w) })
}

// Withdraw implements [store.Proposals].
func (s *Store) Withdraw(ctx context.Context, token [16]byte, n store.Note) error {
	n.Kind, n.Decision = store.WithdrawalNote, nil
	return s.joined(ctx, func(q txn.Querier) error {
		taken, err := s.endProposal(ctx, q, n.ID, token, n.Fence, store.Withdrawn, "", func() error {
			return s.annotate(ctx, q, n, store.Window{})
		})
		if err == nil && !taken {
			err = store.ErrStale
		}
		return err
	})
}

// endProposal makes an open proposal that is not by this name one of another kind, and does the rest. Of all who do so at
// once, one has taken it. If the rest fails, it is open again: the transaction may be that of an attempt, and commit.
func (s *Store) endProposal(ctx context.Context, q txn.Querier, id store.ID, token [16]byte, fence int64, as store.NoteKind,
	by string, rest func() error) (taken bool, err error) {
	turn := func(from, to store.NoteKind, by string) (int64, error) {
		return s.db.Exec(ctx, q, turnProposal, id[:], token[:], fence, int64(from), int64(to), by)
	}
	n, err := turn(store.OpenProposal, as, by)
	if err != nil || n == 0 {
		return false, err
	}
	if err = rest(); err != nil {
		_, again := turn(as, store.OpenProposal, "")
		err = errors.Join(err, again)
	}
	return true, err
}

// annotate adds a note, unless it is there.
func (s *Store) annotate(ctx context.Context, q txn.Querier, n store.Note, w store.Window) error {
	added, err := s.db.Exec(ctx, q, annotate, n.ID[:], n.Token[:], n.Who, n.Text, int64(n.Kind), n.Fence, n.Decision,
		s.sealer.encoding(), txn.Micros(w.From), txn.Latest(w))
	if err == nil && added == 1 || err != nil && !s.db.Dialect.IsThere(err) {
		return err
	}
	there, err := s.notes(ctx, q, []store.ID{n.ID})
	if err != nil || slices.ContainsFunc(there[n.ID], func(o store.Note) bool { return o.Token == n.Token }) {
		return err
	}
	rec, err := s.find(ctx, q, n.ID)
	switch {
	case err != nil || n.Kind == store.OpenProposal:
		return cmp.Or(err, unsettled(rec, n.Fence, w))
	case n.Kind == store.WithdrawalNote:
		return store.ErrStale
	}
	return store.ErrNotSettleable
}

// Notes implements [store.Operations]. It reads by the primary key.
func (s *Store) Notes(ctx context.Context, ids []store.ID) (notes map[store.ID][]store.Note, err error) {
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	err = s.db.OnPool(ctx, func(q txn.Querier) error {
		notes, err = s.notes(ctx, q, ids)
		return err
	})
	return notes, err
}

func (s *Store) notes(ctx context.Context, q txn.Querier, ids []store.ID) (map[store.ID][]store.Note, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	open, cancel := opening(ctx)
	defer cancel()
	notes := map[store.ID][]store.Note{}
	err = s.db.Each(ctx, q, notesOf, func(scan func(...any) error) error {
		var id, token []byte
		var at int64
		var encoding int16
		var n store.Note
		if err := scan(&id, &token, &at, &n.Who, &n.Text, (*int16)(&n.Kind), &n.Fence, &n.Decision, &encoding); err != nil {
			return err
		}
		n.ID, n.Token, n.At = store.ID(id), [16]byte(token), time.UnixMicro(at).UTC()
		if n.Decision != nil {
			n.Decision, _ = s.sealer.open(open, encoding, n.Decision, proposalData(n.ID, n.Token, n.Fence))
		}
		notes[n.ID] = append(notes[n.ID], n)
		return nil
	}, string(list))
	return notes, err
}
