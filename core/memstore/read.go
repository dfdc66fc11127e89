package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/auth19/idem/core"
)

// Find implements [core.Store]. The record of a key that is free again is returned until a sweep drops it.
func (s *Store) Find(ctx context.Context, id core.ID) (core.Record, error) {
	if err := alive(ctx); err != nil {
		return core.Record{}, err
	}
	sh := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.records[id]
	if e == nil {
		return core.Record{}, core.ErrNotFound
	}
	return e.read(s.now()), nil
}

// List implements [core.Store]. It looks at every record: it is for operators and the reconciler.
func (s *Store) List(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	return s.list(ctx, within, after, limit, func(r core.Record) bool { return r.State() == core.Unknown })
}

// Resumable implements [core.Stepper]. It looks at every record.
func (s *Store) Resumable(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	return s.list(ctx, within, after, limit, func(r core.Record) bool {
		return r.Stored == core.Running && r.Recovery == core.Resume && r.LeaseExpired()
	})
}

// HalfDone implements [core.Stepper]. It looks at every record.
func (s *Store) HalfDone(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	return s.list(ctx, within, after, limit, core.Record.HalfDone)
}

func (s *Store) list(ctx context.Context, within []byte, after core.ID, limit int,
	wanted func(core.Record) bool,
) ([]core.Record, error) {
	var from core.Record // the zero record comes before all others
	if after != (core.ID{}) {
		var err error
		if from, err = s.Find(ctx, after); err != nil {
			return nil, err
		}
	}
	var found []core.Record
	for i := range s.shards {
		if err := alive(ctx); err != nil {
			return nil, err
		}
		found = s.shards[i].find(found, s, from, func(r core.Record) bool {
			return bytes.HasPrefix(r.Realm[:], within) && wanted(r)
		})
	}
	slices.SortFunc(found, older)
	return found[:max(0, min(limit, len(found)))], nil
}

// find appends the wanted records that come after from.
func (sh *shard) find(found []core.Record, s *Store, from core.Record, wanted func(core.Record) bool) []core.Record {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	for _, e := range sh.records {
		if r := e.read(now); older(from, r) < 0 && wanted(r) {
			found = append(found, r)
		}
	}
	return found
}

// older orders records by age; the id decides between equals.
func older(a, b core.Record) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}
