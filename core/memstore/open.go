package memstore

import (
	"context"

	"github.com/auth19/idem/core"
)

var _ core.Counter = (*Store)(nil)

// CountOpen implements [core.Counter].
func (s *Store) CountOpen(ctx context.Context, scope core.Scope, limit int) (n int, err error) {
	if err := alive(ctx); err != nil {
		return 0, err
	}
	for i := range s.shards {
		if n += s.shards[i].countOpen(scope); n >= limit {
			return limit, nil
		}
	}
	return n, nil
}

func (sh *shard) countOpen(scope core.Scope) int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.open[scope]
}

// opened and closed are called where a row becomes running, and where it is neither running nor unknown any more.
func (sh *shard) opened(e *entry) { sh.open[e.Scope]++ }

func (sh *shard) closed(e *entry) {
	if sh.open[e.Scope]--; sh.open[e.Scope] == 0 {
		delete(sh.open, e.Scope)
	}
}
