package gormstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/auth19/idem/gormstore/internal/txn"
)

// scopingName begins the name of the setting that keeps the fingerprint of a namespace.
const scopingName = "scoping/"

// KeepScoping implements [store.Settings]. It writes only in a new database, and only reads in any other.
func (s *Store) KeepScoping(ctx context.Context, namespace, fingerprint string) (kept string, err error) {
	read := func(q txn.Querier) error {
		err := s.db.QueryRow(ctx, q, setting, scopingName+namespace).Scan(&kept)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	}
	if err := s.db.OnPool(ctx, read); err != nil || kept != "" {
		return kept, err
	}
	err = s.db.InTx(ctx, func(q txn.Querier) error {
		if _, err := s.db.Exec(ctx, q, keepFirstScoping, scopingName+namespace, fingerprint, scopingName+"%"); err != nil {
			return err
		}
		return read(q)
	})
	return kept, err
}

// AdoptScoping implements [store.Settings].
func (s *Store) AdoptScoping(ctx context.Context, namespace, fingerprint string) error {
	return s.db.Write(ctx, func(q txn.Querier) error {
		_, err := s.db.Exec(ctx, q, keepSetting, scopingName+namespace, fingerprint)
		return err
	})
}
