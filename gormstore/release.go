package gormstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// keepFree is how long the row of a free key stays: a message of before may be under way for so long, and an operator may
// decide about an attempt of before.
const keepFree = 24 * time.Hour

// Release implements [store.Store]. If its connection is broken, it goes over another one: a claim that it takes back may
// have broken it. Any number of tickets takes the same number of statements.
func (s *Store) Release(ctx context.Context, lost []store.Ticket) error {
	if len(lost) == 0 {
		return nil
	}
	return txn.OverAnother(ctx, func() error {
		var stale error
		err := s.db.InTx(ctx, func(q txn.Querier) (err error) {
			if err = s.waitFor(ctx, q, lost); err != nil {
				return err
			}
			for done, try := false, 0; !done && err == nil; try++ {
				if try == txn.MaxTries {
					return txn.ErrRace
				}
				done, stale, err = s.takeBack(ctx, q, lost)
			}
			return err
		})
		if err != nil {
			return err
		}
		return stale
	})
}

// waitFor waits for claims that may still be running in the server, although their owners got errors: then they hold the
// locks of the records. Another instance may wait for the same ones: so it does in the order of the locks.
func (s *Store) waitFor(ctx context.Context, q txn.Querier, lost []store.Ticket) error {
	var locks []int64
	for _, t := range lost {
		locks = append(locks, txn.LockKey(t.ID))
	}
	slices.Sort(locks)
	_, err := s.db.Exec(ctx, q, waitLocks, asJSON(locks))
	return err
}

// takeBack releases where claims may have done nothing yet. not done: where nobody holds a lock, one was quicker.
func (s *Store) takeBack(ctx context.Context, q txn.Querier, lost []store.Ticket) (done bool, stale, err error) {
	var ids []store.ID
	var owners []string
	for _, t := range lost {
		ids, owners = append(ids, t.ID), append(owners, hex.EncodeToString(t.Owner[:]))
	}
	free := map[store.ID]bool{}
	none := make([]byte, len(store.Owner{}))
	err = s.db.Each(ctx, q, releaseOwners, func(scan func(...any) error) error {
		var id []byte
		err := scan(&id)
		free[store.ID(id)] = true
		return err
	}, asJSON(ids), asJSON(owners), keepFree.Microseconds(), none)
	if err != nil || len(free) == len(lost) {
		return true, nil, err
	}
	there, err := s.thereOf(ctx, q, ids)
	if err != nil {
		return true, nil, err
	}
	var late [][2]string // have not won, and may come later
	for i, t := range lost {
		r, found := there[t.ID]
		mine := bytes.Equal(r.owner, t.Owner[:])
		switch {
		case free[t.ID], mine && r.stored == store.Free: // now, or the last time
		case mine && r.stored == store.Running: // it has come in between
			return false, nil, nil
		case !found, bool(r.free):
			late = append(late, [2]string{t.ID.String(), owners[i]})
			free[t.ID] = true
		case bool(r.idle): // its takeover may still be on its way; or this is sent again
			if _, err := s.db.Exec(ctx, q, outrun, t.ID[:], r.fence); err != nil {
				return true, nil, err
			}
		default:
			stale = store.ErrStale
		}
	}
	if len(late) == 0 {
		return true, stale, nil
	}
	n, err := s.db.Exec(ctx, q, fenceOffLate, asJSON(late), keepFree.Microseconds(), make([]byte, len(store.Scope{})),
		make([]byte, len(store.Realm{})))
	return int(n) == len(late), stale, err
}

// lostRecord is what there is of a record of which no claim was found.
type lostRecord struct {
	owner  []byte
	stored store.State
	free   txn.Flag // by its state, or because its time is over
	idle   txn.Flag // a Resume operation that nobody runs
	fence  int64
}

func (s *Store) thereOf(ctx context.Context, q txn.Querier, ids []store.ID) (map[store.ID]lostRecord, error) {
	there := map[store.ID]lostRecord{}
	err := s.db.Each(ctx, q, lostRecords, func(scan func(...any) error) error {
		var r lostRecord
		var id []byte
		err := scan(&id, &r.owner, &r.stored, &r.free, &r.idle, &r.fence)
		there[store.ID(id)] = r
		return err
	}, asJSON(ids))
	return there, err
}

// asJSON is a list for a statement.
func asJSON(list any) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // of numbers and strings
	}
	return string(text)
}
