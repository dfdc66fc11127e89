package memstore

import (
	"context"
	"time"

	"github.com/auth19/idem/core"
)

var _ core.Counter = (*Store)(nil)

// CountOpen implements [core.Counter]. It looks at all open records.
func (s *Store) CountOpen(ctx context.Context, scope core.Scope, limit int) (n int, err error) {
	if err := alive(ctx); err != nil {
		return 0, err
	}
	for i := range s.shards {
		if n += s.shards[i].countOpen(scope, s.now()); n >= limit {
			return limit, nil
		}
	}
	return n, nil
}

func (sh *shard) countOpen(scope core.Scope, now time.Time) (n int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for e := range sh.open {
		if e.Now = now; e.Scope == scope && !e.HalfDone() {
			n++
		}
	}
	return n
}

// opened and closed are called where a row becomes running, and where it is neither running nor unknown any more.
func (sh *shard) opened(e *entry) { sh.open[e] = struct{}{} }
func (sh *shard) closed(e *entry) { delete(sh.open, e) }
