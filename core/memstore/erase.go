package memstore

import (
	"bytes"
	"context"
	"slices"

	"github.com/auth19/idem/core"
)

var _ core.Eraser = (*Store)(nil)

// Erase implements [core.Eraser]. It looks at every record in one batch, whatever the limit.
func (s *Store) Erase(ctx context.Context, scope core.Scope, _ core.ID, _ int) (page core.ErasedPage, err error) {
	for i := range s.shards {
		if err := alive(ctx); err != nil {
			return page, err
		}
		s.erase(&s.shards[i], scope, &page)
	}
	slices.SortFunc(page.Open, func(a, b core.ID) int { return bytes.Compare(a[:], b[:]) })
	return page, nil
}

// erase adds to page what it did in one shard.
func (s *Store) erase(sh *shard, scope core.Scope, page *core.ErasedPage) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	for _, e := range sh.records {
		if e.Scope != scope {
			continue
		}
		switch {
		case e.Stored == core.Running, e.Stored == core.Unknown:
			page.Open = append(page.Open, e.ID)
		case e.Stored == core.Completed:
			sh.tombstone(e)
			if now.Before(e.ExpiresAt) {
				e.ExpiresAt = now
			}
			sh.eraseHistory(e.ID)
			page.Records++
		case e.Stored == core.Free && len(e.steps)+len(e.references) > 0:
			e.steps, e.references = nil, nil
			page.Records++
		}
	}
}

// eraseHistory leaves of the answers in the history of settlements what a tombstone leaves of them.
func (sh *shard) eraseHistory(id core.ID) {
	for i := range sh.history[id] {
		entry := &sh.history[id][i]
		entry.Before.Answer = core.Answer{Status: entry.Before.Answer.Status}
		entry.After.Answer = core.Answer{Status: entry.After.Answer.Status}
	}
}
