package gormstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// errNotVisible: the sighting of the key was committed after the statement's snapshot.
var errNotVisible = errors.New("idem: gormstore: the first sighting of the key cannot be seen yet")

// Sight implements [store.Sightings], in one statement, or in two where there is one writer.
func (s *Store) Sight(ctx context.Context, c store.Sighting) (seen store.Seen, err error) {
	id := c.ID[:]
	if c.ID == (store.ID{}) { // a command without a key gets an id that never comes again
		id = make([]byte, 16)
		rand.Read(id) // never fails since Go 1.24
	}
	args := []any{id, c.Scope[:], int64(c.Hash.Version), c.Hash.Sum[:], c.Keep.Microseconds(), c.Window.Microseconds(),
		c.Tentative}
	err = s.db.Write(ctx, func(q txn.Querier) error {
		for range txn.MaxTries {
			if seen, err = s.sight(ctx, q, args); !errors.Is(err, errNotVisible) {
				break
			}
		}
		if isNew := !seen.Key && (!c.Tentative || !seen.Rekeyed); err == nil && isNew {
			_, err = s.db.Exec(ctx, q, noteSighting, args...)
		}
		return err
	})
	return seen, err
}

// sight runs the statement sight.
func (s *Store) sight(ctx context.Context, q txn.Querier, args []any) (store.Seen, error) {
	var isNew txn.Flag
	var version sql.NullInt16
	var hash, earlier []byte
	if err := s.db.QueryRow(ctx, q, sight, args...).Scan(&isNew, &version, &hash, &earlier); err != nil {
		return store.Seen{}, err
	}
	seen := store.Seen{Key: !bool(isNew), Rekeyed: earlier != nil}
	if len(earlier) == len(seen.Earlier) {
		copy(seen.Earlier[:], earlier)
	}
	if seen.Key {
		if len(hash) != len(seen.First.Sum) {
			return store.Seen{}, errNotVisible
		}
		seen.First.Version = version.Int16
		copy(seen.First.Sum[:], hash)
	}
	return seen, nil
}
