package memstore

import (
	"bytes"
	"context"
	"slices"

	"github.com/auth19/idem/core/store"
)

var _ store.Eraser = (*Store)(nil)

// Erase implements [store.Eraser]. It looks at every record in one batch, whatever the limit.
func (s *Store) Erase(ctx context.Context, scope store.Scope, _ store.ID, _ int) (page store.ErasedPage, err error) {
	for i := range s.shards {
		if err := alive(ctx); err != nil {
			return page, err
		}
		s.erase(&s.shards[i], scope, &page)
	}
	slices.SortFunc(page.Open, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	return page, nil
}

// erase adds to page what it did in one shard.
func (s *Store) erase(sh *shard, scope store.Scope, page *store.ErasedPage) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	for _, e := range sh.records {
		if e.Scope != scope {
			continue
		}
		switch {
		case e.Stored == store.Running, e.Stored == store.Unknown:
			page.Open = append(page.Open, e.ID)
		case e.Stored == store.Completed:
			sh.tombstone(e)
			if now.Before(e.ExpiresAt) {
				e.ExpiresAt = now
			}
			sh.eraseHistory(e.ID)
			page.Records++
		case e.Stored == store.Free && len(e.steps)+len(e.references) > 0:
			e.steps, e.references = nil, nil
			page.Records++
		}
	}
}

// eraseHistory leaves of the answers in the history of settlements what a tombstone leaves of them.
func (sh *shard) eraseHistory(id store.ID) {
	for i := range sh.history[id] {
		entry := &sh.history[id][i]
		entry.Before.Answer = store.Answer{Status: entry.Before.Answer.Status}
		entry.After.Answer = store.Answer{Status: entry.After.Answer.Status}
	}
}
