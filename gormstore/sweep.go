package gormstore

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Sweep implements [store.Store]. Each statement has a transaction of its own at read committed: it reads many records, and
// must not make claims fail to serialize.
func (s *Store) Sweep(ctx context.Context, limit int, w store.Window) (store.Swept, error) {
	if _, err := s.db.ClockWithin(ctx, s.db.Pool, w); err != nil {
		return store.Swept{}, err
	}
	return s.sweepAll(ctx, limit, w)
}

func (s *Store) sweepAll(ctx context.Context, limit int, w store.Window) (store.Swept, error) {
	swept, err := s.sweep(ctx, limit, w)
	if err != nil {
		return store.Swept{}, err
	}
	if swept.CommandLog, err = s.db.Forget(ctx, &s.oldCommands, forgetCommands, limit, w); err != nil {
		return swept, err
	}
	swept.Messages, err = s.forgetMessages(ctx, limit, w)
	return swept, err
}

// sweep looks at up to limit records that are due: it finds them first, and changes them by their ids.
func (s *Store) sweep(ctx context.Context, limit int, w store.Window) (swept store.Swept, err error) {
	_, err = s.db.Sweep(ctx, &s.due, limit, func(q txn.Querier, from int64, saw func(at int64)) error {
		due, err := s.findDue(ctx, q, saw, limit, txn.Micros(w.From), txn.Latest(w), from)
		if err != nil {
			return err
		}
		over := slices.Concat(due.tombstones, due.dropped)
		err = s.changeAll(ctx, q, byIDs{bury, due.tombstones}, byIDs{drop, due.dropped}, byIDs{putOff, due.later},
			byIDs{dropStepsOf, due.stepped}, byIDs{dropReferencesOf, over}, byIDs{blankNotesOf, over})
		if err != nil {
			return err
		}
		swept = store.Swept{Tombstones: len(due.tombstones), Dropped: len(due.dropped)}
		return s.raiseFloors(ctx, q, due.floors)
	})
	if err != nil {
		return store.Swept{}, err
	}
	return swept, nil
}

// byIDs is a statement that changes what belongs to records.
type byIDs struct {
	name txn.Statement
	ids  []store.ID
}

// changeAll runs those that have ids, in this order.
func (s *Store) changeAll(ctx context.Context, q txn.Querier, changes ...byIDs) error {
	for _, change := range changes {
		if len(change.ids) == 0 {
			continue
		}
		list, err := json.Marshal(change.ids)
		if err == nil {
			_, err = s.db.Exec(ctx, q, change.name, string(list))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dueRecords are records that are due, by what is to become of them.
type dueRecords struct {
	tombstones, dropped, later []store.ID
	stepped                    []store.ID // those of the first two that may have steps
	floors                     floors     // of timed keys, which have to rise
}

func (s *Store) findDue(ctx context.Context, q txn.Querier, saw func(at int64), args ...any) (found dueRecords, err error) {
	err = s.db.Each(ctx, q, due, func(scan func(...any) error) error {
		var became, route string
		var raw, realm []byte
		var stepped txn.Flag
		var at int64
		if err := scan(&became, &raw, &stepped, &realm, &route, &at); err != nil {
			return err
		}
		saw(at)
		id := store.ID(raw)
		switch became {
		case "tombstone":
			found.tombstones = append(found.tombstones, id)
		case "dropped":
			found.dropped = append(found.dropped, id)
		default:
			found.later = append(found.later, id)
			return nil
		}
		if stepped {
			found.stepped = append(found.stepped, id)
		}
		if len(realm) > 0 {
			found.floors.add(raw, realm, route)
		}
		return nil
	}, args...)
	return found, err
}
