package gormstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// errNotVisible: the first command of the key was committed after the statement's snapshot.
var errNotVisible = errors.New("idem: gormstore: the first command of the key cannot be seen yet")

// LogCommand implements [store.CommandLog], in one statement, or in two where there is one writer.
func (s *Store) LogCommand(ctx context.Context, c store.LoggedCommand) (earlier store.EarlierCommands, err error) {
	id := c.ID[:]
	if c.ID == (store.ID{}) { // a command without a key gets an id that never comes again
		id = make([]byte, 16)
		rand.Read(id) // never fails since Go 1.24
	}
	args := []any{id, c.Scope[:], int64(c.Hash.Version), c.Hash.Sum[:], c.Keep.Microseconds(), c.Window.Microseconds(),
		c.Tentative}
	err = s.db.Write(ctx, func(q txn.Querier) error {
		for range txn.MaxTries {
			if earlier, err = s.logCommand(ctx, q, args); !errors.Is(err, errNotVisible) {
				break
			}
		}
		if isNew := !earlier.Key && (!c.Tentative || !earlier.Rekeyed); err == nil && isNew {
			_, err = s.db.Exec(ctx, q, insertCommand, args...)
		}
		return err
	})
	return earlier, err
}

// logCommand runs the statement logCommand.
func (s *Store) logCommand(ctx context.Context, q txn.Querier, args []any) (store.EarlierCommands, error) {
	var isNew txn.Flag
	var version sql.NullInt16
	var hash, earlier []byte
	if err := s.db.QueryRow(ctx, q, logCommand, args...).Scan(&isNew, &version, &hash, &earlier); err != nil {
		return store.EarlierCommands{}, err
	}
	found := store.EarlierCommands{Key: !bool(isNew), Rekeyed: earlier != nil}
	if len(earlier) == len(found.Earlier) {
		copy(found.Earlier[:], earlier)
	}
	if found.Key {
		if len(hash) != len(found.First.Sum) {
			return store.EarlierCommands{}, errNotVisible
		}
		found.First.Version = version.Int16
		copy(found.First.Sum[:], hash)
	}
	return found, nil
}
