package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

var (
	_ store.Counter  = (*Store)(nil)
	_ store.Surveyor = (*Store)(nil)
)

// CountOpen implements [store.Counter]. It looks at all open records.
func (s *Store) CountOpen(ctx context.Context, scope store.Scope, limit int) (n int, err error) {
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

func (sh *shard) countOpen(scope store.Scope, now time.Time) (n int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for e := range sh.open {
		if e.Now = now; e.Scope == scope && !e.HalfDone() {
			n++
		}
	}
	return n
}

// Survey implements [store.Surveyor]. It looks at all open records.
func (s *Store) Survey(ctx context.Context, within []byte, limit int) ([]store.Backlog, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	var found []store.Record
	for i := range s.shards {
		found = s.shards[i].survey(found, within, s.now())
	}
	slices.SortFunc(found, older)
	var all []store.Backlog
	for _, r := range found[:max(0, min(limit, len(found)))] {
		b := store.Backlog{HalfDone: r.State() != store.Unknown, Method: r.Method, Route: r.Route, Count: 1, Oldest: r.CreatedAt}
		at, known := slices.BinarySearchFunc(all, b, byRoute)
		if known {
			all[at].Count++ // the first one was the oldest
			continue
		}
		all = slices.Insert(all, at, b)
	}
	return all, nil
}

// survey appends the open records that need somebody.
func (sh *shard) survey(found []store.Record, within []byte, now time.Time) []store.Record {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for e := range sh.open {
		if e.Now = now; bytes.HasPrefix(e.Realm[:], within) && (e.State() == store.Unknown || e.HalfDone()) {
			found = append(found, e.read(now))
		}
	}
	return found
}

func byRoute(a, b store.Backlog) int {
	if a.HalfDone != b.HalfDone {
		if a.HalfDone {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Method, b.Method))
}

// opened and closed are called where a row becomes running, and where it is neither running nor unknown any more.
func (sh *shard) opened(e *entry) { sh.open[e] = struct{}{} }
func (sh *shard) closed(e *entry) { delete(sh.open, e) }
