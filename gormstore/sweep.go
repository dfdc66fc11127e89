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
	if swept.Sightings, err = s.forget(ctx, forgetSightings, limit, w); err != nil {
		return swept, err
	}
	swept.Messages, err = s.forgetMessages(ctx, limit, w)
	return swept, err
}

// forget runs a statement of Sweep that only deletes, and returns how many rows.
func (s *Store) forget(ctx context.Context, name txn.Statement, limit int, w store.Window) (n int, err error) {
	err = s.db.InTx(ctx, func(q txn.Querier) error {
		forgotten, err := s.db.Exec(ctx, q, name, limit, txn.Micros(w.From), txn.Latest(w))
		n = int(forgotten)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// sweep looks at up to limit records that are due: it finds them first, and changes them by their ids.
func (s *Store) sweep(ctx context.Context, limit int, w store.Window) (swept store.Swept, err error) {
	err = s.db.InTx(ctx, func(q txn.Querier) error {
		swept = store.Swept{}
		due, err := s.due(ctx, q, limit, w)
		if err != nil {
			return err
		}
		for _, change := range []struct {
			name txn.Statement
			ids  []store.ID
		}{
			{bury, due.tombstones}, {drop, due.dropped}, {putOff, due.later}, {dropStepsOf, due.stepped},
			{dropReferencesOf, slices.Concat(due.tombstones, due.dropped)},
		} {
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
		swept.Tombstones, swept.Dropped = len(due.tombstones), len(due.dropped)
		return s.raiseFloors(ctx, q, due.floors)
	})
	if err != nil {
		return store.Swept{}, err
	}
	return swept, nil
}

// dueRecords are records that are due, by what is to become of them.
type dueRecords struct {
	tombstones, dropped, later []store.ID
	stepped                    []store.ID // those of the first two that may have steps
	floors                     floors     // of timed keys, which have to rise
}

func (s *Store) due(ctx context.Context, q txn.Querier, limit int, w store.Window) (found dueRecords, err error) {
	err = s.db.Each(ctx, q, due, func(scan func(...any) error) error {
		var became, route string
		var raw, realm []byte
		var stepped txn.Flag
		if err := scan(&became, &raw, &stepped, &realm, &route); err != nil {
			return err
		}
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
	}, limit, txn.Micros(w.From), txn.Latest(w))
	return found, err
}
