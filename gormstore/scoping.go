package gormstore

import (
	"context"
	"database/sql"
	"errors"
)

// scopingName begins the name of the setting that keeps the fingerprint of a namespace.
const scopingName = "scoping/"

// KeepScoping implements [store.Settings]. It writes only in a new database, and only reads in any other.
func (s *Store) KeepScoping(ctx context.Context, namespace, fingerprint string) (kept string, err error) {
	read := func(q querier) error {
		err := s.queryRow(ctx, q, setting, scopingName+namespace).Scan(&kept)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	}
	if err := s.onPool(ctx, read); err != nil || kept != "" {
		return kept, err
	}
	err = s.inTx(ctx, func(q querier) error {
		if _, err := s.exec(ctx, q, keepFirstScoping, scopingName+namespace, fingerprint, scopingName+"%"); err != nil {
			return err
		}
		return read(q)
	})
	return kept, err
}

// AdoptScoping implements [store.Settings].
func (s *Store) AdoptScoping(ctx context.Context, namespace, fingerprint string) error {
	return s.write(ctx, func(q querier) error {
		_, err := s.exec(ctx, q, keepSetting, scopingName+namespace, fingerprint)
		return err
	})
}
