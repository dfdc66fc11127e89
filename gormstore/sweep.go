package gormstore

import (
	"context"
	"database/sql"

	"github.com/auth19/idem/core"
)

// Sweep implements [core.Store]. Each statement has a transaction of its own at read committed: it reads many records, and
// must not make claims fail to serialize.
func (s *Store) Sweep(ctx context.Context, limit int, w core.Window) (core.Swept, error) {
	var now instant
	if err := s.queryRow(ctx, s.pool, clock).Scan(&now); err != nil {
		return core.Swept{}, err
	}
	if !w.Has(now.Time) {
		return core.Swept{}, core.ErrClock
	}
	tombstones, err := s.sweep(ctx, bury, limit, w)
	if err != nil {
		return core.Swept{}, err
	}
	dropped, err := s.sweep(ctx, drop, limit, w)
	if err != nil {
		return core.Swept{Tombstones: tombstones, Dropped: dropped}, err
	}
	swept := core.Swept{Tombstones: tombstones, Dropped: dropped}
	if swept.Sightings, err = s.forget(ctx, forgetSightings, limit, w); err != nil {
		return swept, err
	}
	swept.Messages, err = s.forgetMessages(ctx, limit, w)
	return swept, err
}

// forget runs a statement of Sweep that only deletes, and returns how many rows.
func (s *Store) forget(ctx context.Context, name statement, limit int, w core.Window) (n int, err error) {
	err = s.inTx(ctx, func(q querier) error {
		forgotten, err := s.exec(ctx, q, name, limit, micros(w.From), latest(w))
		n = int(forgotten)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// sweep runs one statement of Sweep, and deletes the steps of the records that it returns. It returns how many records there
// were.
func (s *Store) sweep(ctx context.Context, name statement, limit int, w core.Window) (n int, err error) {
	err = s.inTx(ctx, func(q querier) error {
		n = 0
		var floors floors
		rows, err := s.query(ctx, q, name, limit, micros(w.From), latest(w))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		var stepped [][]byte
		for rows.Next() {
			var id, realm []byte
			var resume flag
			var route sql.NullString
			if err := rows.Scan(&id, &resume, &realm, &route); err != nil {
				return err
			}
			n++
			if len(realm) > 0 {
				floors.add(id, realm, route.String)
			}
			if resume {
				stepped = append(stepped, id)
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for _, id := range stepped {
			if _, err := s.exec(ctx, q, dropSteps, id); err != nil {
				return err
			}
		}
		return s.raiseFloors(ctx, q, floors)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
