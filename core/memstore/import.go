package memstore

import (
	"context"

	"github.com/auth19/idem/core"
)

var _ core.Importer = (*Store)(nil)

// Import implements [core.Importer]. core.ErrFull where there is no room for all of them.
func (s *Store) Import(ctx context.Context, records []core.Record) (added int, err error) {
	for _, rec := range records {
		if err := alive(ctx); err != nil {
			return added, err
		}
		isNew, ok := s.add(rec)
		if !ok {
			return added, core.ErrFull
		}
		if isNew {
			added++
		}
	}
	return added, nil
}

// add is not ok where the store would have to grow beyond its limit.
func (s *Store) add(rec core.Record) (isNew, ok bool) {
	sh := s.shard(rec.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.records[rec.ID] != nil {
		return false, true
	}
	if s.count.Add(1) > s.max {
		s.count.Add(-1)
		return false, false
	}
	e := &entry{Record: rec}
	e.answer(rec.Answer)
	sh.records[rec.ID] = e
	sh.become(e, rec.Stored)
	if rec.Stored == core.Running || rec.Stored == core.Unknown {
		sh.opened(e)
	}
	return true, true
}
