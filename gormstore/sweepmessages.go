package gormstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// forgetMessages deletes at most limit markers whose time is over, and raises the floors that remember them.
func (s *Store) forgetMessages(ctx context.Context, limit int, w store.Window) (n int, err error) {
	return s.db.Sweep(ctx, &s.oldMessages, limit, func(q txn.Querier, from int64, saw func(at int64)) error {
		floors, err := s.removeMessages(ctx, q, saw, limit, txn.Micros(w.From), txn.Latest(w), from)
		if err != nil {
			return err
		}
		for _, f := range slices.SortedFunc(maps.Keys(floors), stream.compare) { // sorted, so that two sweeps do not deadlock
			if _, err := s.db.Exec(ctx, q, raiseFloor, f.group, f.source, floors[f]); err != nil {
				return err
			}
		}
		return nil
	})
}

// stream is a source and the group that processes its messages.
type stream struct{ group, source string }

func (f stream) compare(other stream) int {
	return cmp.Or(cmp.Compare(f.group, other.group), cmp.Compare(f.source, other.source))
}

// removeMessages deletes markers, and returns for each stream when the latest of their messages was published.
func (s *Store) removeMessages(ctx context.Context, q txn.Querier, saw func(at int64), args ...any) (
	floors map[stream]int64, err error,
) {
	floors = make(map[stream]int64)
	err = s.db.Each(ctx, q, forgetMessages, func(scan func(...any) error) error {
		var f stream
		var expired int64
		var published pgtype.Int8
		if err := scan(&expired, &f.group, &f.source, &published); err != nil {
			return err
		}
		saw(expired)
		if at, known := floors[f]; published.Valid && (!known || at < published.Int64) {
			floors[f] = published.Int64
		}
		return nil
	}, args...)
	return floors, err
}
