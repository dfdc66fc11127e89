package gormstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
	"github.com/auth19/idem/gormstore"
)

// TestStore runs the suite that every store passes, on every database and mode that the store is promised to work in.
func TestStore(t *testing.T) {
	t.Parallel()
	for _, d := range everyWay {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			newSubject := subjects(t, d)
			features := storetest.Features{Attempts: true, Rows: true, Shared: d.shared, Watch: true, Settings: true, Proposed: true}
			if d.name == "postgres" || d.name == "sqlite" {
				t.Run("sealed", func(t *testing.T) {
					storetest.Run(t, subjects(t, d, gormstore.Seal(aead(t, "2026-a"))), features)
				})
			}
			storetest.Run(t, newSubject, features)
			t.Run("stress", func(t *testing.T) { storetest.Stress(t, newSubject, features) })
		})
	}
}

// subjects makes empty stores. On PostgreSQL they share a database and two pools, emptied for each test: creating a
// database takes longer than most tests, and TRUNCATE too, which makes all tables and indexes anew.
func subjects(t *testing.T, d database, options ...gormstore.Option) func(t *testing.T) storetest.Subject {
	if !d.shared {
		return func(t *testing.T) storetest.Subject {
			db := d.fresh(t)(t)
			return subject(t, db, nil, options...)
		}
	}
	open := d.fresh(t)
	db, twin := open(t), open(t)
	return func(t *testing.T) storetest.Subject {
		tables := []string{
			"idempotency_record", "idempotency_step", "idempotency_sighting", "idempotency_reference",
			"idempotency_settlement", "idempotency_note", "idempotency_setting", "effects",
		}
		// A transaction that a test before has left open makes this one fail: it does not hang, and no row is overlooked.
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error {
			err := errors.Join(tx.Exec("SET LOCAL lock_timeout = '10s'").Error, tx.Exec("LOCK TABLE "+strings.Join(tables, ", ")).Error)
			for _, table := range tables {
				err = errors.Join(err, tx.Exec("DELETE FROM "+table).Error)
			}
			return err
		}))
		return subject(t, db, twin, options...)
	}
}

func subject(t *testing.T, db, twin *gorm.DB, options ...gormstore.Option) storetest.Subject {
	s := storetest.Subject{
		Store: newStore(t, db, options...),
		Advance: func(t *testing.T, d time.Duration) {
			advance(t, db, d)
			moveBack(t, db, d, "idempotency_step", "started_at", "finished_at")
			moveBack(t, db, d, "idempotency_sighting", "seen_at", "purge_at")
			moveBack(t, db, d, "idempotency_reference", "referred_at")
			moveBack(t, db, d, "idempotency_note", "written_at")
			moveBack(t, db, d, "idempotency_settlement", "settled_at")
		},
		Effect:  addEffect,
		Effects: func(t *testing.T) int { return countEffects(t, db) },
	}
	if twin != nil {
		s.Twin = func(t *testing.T) store.Operations { return newStore(t, twin, options...) }
	}
	return s
}
