package gormstore

import (
	"context"
	"errors"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Sweep implements [store.Store]. Each statement has a transaction of its own at read committed: it reads many records, and
// must not make claims fail to serialize.
func (s *Store) Sweep(ctx context.Context, limit int, w store.Window) (store.Swept, error) {
	b, err := s.readBeat(ctx, s.db.Pool)
	if err != nil {
		return store.Swept{}, err
	}
	if !w.Has(time.UnixMicro(b.now)) {
		return store.Swept{}, store.ErrClock
	}
	patrolled := s.patrol(ctx, b) // the rest goes on without it
	held, heldErr := s.heldUp(ctx, b)
	swept, err := s.sweepAll(ctx, limit, w)
	swept.HeldUp = held
	return swept, errors.Join(patrolled, heldErr, err)
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

// sweep looks at up to limit records that are due, and deletes the steps of those that become tombstones or are dropped.
func (s *Store) sweep(ctx context.Context, limit int, w store.Window) (swept store.Swept, err error) {
	err = s.db.InTx(ctx, func(q txn.Querier) error {
		swept = store.Swept{}
		records, err := s.sweepRecords(ctx, q, limit, w)
		if err != nil {
			return err
		}
		var floors floors
		for _, r := range records {
			switch r.became {
			case "tombstone":
				swept.Tombstones++
			case "dropped":
				swept.Dropped++
			}
			if len(r.realm) > 0 {
				floors.add(r.id, r.realm, r.route)
			}
			if r.stepped {
				if _, err := s.db.Exec(ctx, q, dropSteps, r.id); err != nil {
					return err
				}
			}
		}
		return s.raiseFloors(ctx, q, floors)
	})
	if err != nil {
		return store.Swept{}, err
	}
	return swept, nil
}

// sweptRecord is what a sweep has made of a record.
type sweptRecord struct {
	became    string // "tombstone", "dropped", or "" where it stays what it was
	id, realm []byte // realm: of a timed key whose floor has to rise
	stepped   txn.Flag
	route     string
}

// sweepRecords turns the records that are due into tombstones, or drops them. SQLite needs a statement for each record.
func (s *Store) sweepRecords(ctx context.Context, q txn.Querier, limit int, w store.Window) ([]sweptRecord, error) {
	name := sweep
	if s.db.Dialect == txn.SQLite {
		name = due
	}
	var records []sweptRecord
	err := s.db.Each(ctx, q, name, func(scan func(...any) error) error {
		var r sweptRecord
		err := scan(&r.became, &r.id, &r.stepped, &r.realm, &r.route)
		r.stepped = r.stepped && r.became != ""
		records = append(records, r)
		return err
	}, limit, txn.Micros(w.From), txn.Latest(w))
	if err != nil || s.db.Dialect == txn.Postgres {
		return records, err
	}
	for _, r := range records {
		name := map[string]txn.Statement{"tombstone": bury, "dropped": drop, "": putOff}[r.became]
		_, err := s.db.Exec(ctx, q, name, r.id)
		if err == nil && r.became != "" {
			_, err = s.db.Exec(ctx, q, dropReferences, r.id)
		}
		if err != nil {
			return nil, err
		}
	}
	return records, nil
}
