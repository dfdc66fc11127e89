package gormstore

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// A claim may look at the record first. A look never decides that a command runs. It returns a record that no claim could
// take over, as the claim's own statement would, or it returns nothing.

// recentKeys has the keys whose records this process has lately written or found. It only decides which statement is sent
// first. For a key that it has, that is a plain SELECT: lookAnswer for one with an answer, which is the lowest bit of its
// mark, else lookFirst. For others it is an INSERT (insertRecord), or the begin of a transaction. A wrong guess costs one
// more statement.
type recentKeys [1 << 16]atomic.Uint32

const hasAnswer = 1

// of is the slot of a key and its mark: one half of the hash gives the slot, the other half is compared. A later key may
// replace an earlier one, which is then forgotten.
func (s *recentKeys) of(id store.ID) (slot *atomic.Uint32, mark uint32) {
	hash := binary.BigEndian.Uint64(id.Hash())
	return &s[hash%uint64(len(s))], uint32(hash>>32) &^ hasAnswer
}

// lookUp reports whether a key has a record, and whether with an answer.
func (s *recentKeys) lookUp(id store.ID) (there, answered bool) {
	slot, mark := s.of(id)
	was := slot.Load()
	return was&^hasAnswer == mark, was == mark|hasAnswer
}

func (s *recentKeys) add(id store.ID, answered bool) {
	slot, mark := s.of(id)
	if answered {
		mark |= hasAnswer
	}
	slot.Store(mark)
}

// addFound notes the record that a claim has met or made.
func (s *recentKeys) addFound(id store.ID, found store.Record) {
	if found.Stored != 0 {
		s.add(id, found.State() == store.Completed)
	}
}

// lookFirst returns the existing record that a claim would meet on PostgreSQL. It returns nothing if the claim has to be
// tried: there is no record, or the record can be taken over, or the server is read-only.
func (s *Store) lookFirst(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if _, answered := s.recent.lookUp(c.ID); answered && c.Lean {
		if claimed, err := s.lookAnswer(ctx, c.ID); err != nil || txn.IsThere(claimed) {
			return claimed, err
		}
		s.recent.add(c.ID, false)
	}
	id := c.ID // c.ID[:] would move all of c to the heap
	var now pgtype.Int8
	var scan recordScan
	err := s.db.AskAlone(ctx, lookFirst, scan.targets(&now), id[:])
	if err != nil || !now.Valid || scan.id == nil {
		return store.Claimed{}, err
	}
	rec, err := s.thereIs(ctx, &scan, txn.Time(now))
	if errors.Is(err, txn.ErrRace) || err == nil && (takeable(rec, c) || ours(rec, c)) {
		return store.Claimed{}, nil
	}
	return store.Claimed{Record: rec}, err
}

// lookAnswer is lookFirst for an answer that can be replayed. It returns nothing of any other record.
func (s *Store) lookAnswer(ctx context.Context, id store.ID) (store.Claimed, error) {
	var a answerScan
	err := s.db.AskAlone(ctx, lookAnswer, a.targets(), id[:])
	if err != nil || !a.now.Valid {
		return store.Claimed{}, err
	}
	rec, err := a.record(ctx, s.sealer, id)
	if err == nil {
		err = s.db.ConfirmRead(ctx, a.Server)
	}
	if errors.Is(err, txn.ErrRace) {
		return store.Claimed{}, nil
	}
	return store.Claimed{Record: rec}, err
}

// peek returns a record that the claim cannot take over, or Busy if another attempt is running. It returns nothing if the
// claim has to be tried.
func (s *Store) peek(ctx context.Context, c store.Claim) (store.Claimed, error) {
	rec, err := s.Find(ctx, c.ID, store.Viewer{All: true})
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && rec.State() == store.Free:
		running, err := s.InFlight(ctx, c.ID)
		return store.Claimed{Busy: running}, err
	case err != nil || takeable(rec, c):
		return store.Claimed{}, err
	}
	return store.Claimed{Record: rec}, nil
}
