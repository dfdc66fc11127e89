package database

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// migrationLock is the advisory lock that lets only one instance migrate at a time.
const migrationLock = 0x6964656d // "idem"

// mysqlTable: names that differ are different, also by a capital letter or a space at their end.
const mysqlTable = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin"

// modelSet is a row for each set of models whose tables exist.
type modelSet struct {
	Fingerprint string `gorm:"primaryKey;size:64"`
}

// Migrate creates the tables of the models, or adds what they lack. Several instances may start at once: on
// a server they take turns, because AutoMigrate alone fails if two instances create the same table. A set of models
// is migrated once: AutoMigrate asks PostgreSQL's catalog more than a hundred questions, at each start.
func Migrate(ctx context.Context, db *gorm.DB, models ...any) error {
	want, err := fingerprint(db, models)
	if err != nil {
		return fmt.Errorf("migrate the tables: %w", err)
	}
	err = db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		switch tx.Name() {
		case "postgres":
			if err := tx.Exec("SELECT pg_advisory_xact_lock(?)", migrationLock).Error; err != nil {
				return err
			}
		case "mysql": // each statement that makes a table commits, and the lock is the connection's
			if err := tx.Exec("DO GET_LOCK('idem/examples', 60)").Error; err != nil {
				return err
			}
			defer tx.Exec("DO RELEASE_LOCK('idem/examples')")
			tx = tx.Set("gorm:table_options", mysqlTable).Session(&gorm.Session{})
		}
		if tx.Migrator().HasTable(&modelSet{}) {
			if done := tx.Limit(1).Find(&modelSet{}, want); done.Error != nil || done.RowsAffected == 1 {
				return done.Error
			}
		}
		if err := tx.AutoMigrate(append([]any{&modelSet{}}, models...)...); err != nil {
			return err
		}
		return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&want).Error
	})
	if err != nil {
		return fmt.Errorf("migrate the tables: %w", err)
	}
	return nil
}

// fingerprint is different for sets of models with different tables.
func fingerprint(db *gorm.DB, models []any) (modelSet, error) {
	hash := sha256.New()
	for _, model := range models {
		statement := gorm.Statement{DB: db}
		if err := statement.Parse(model); err != nil {
			return modelSet{}, err
		}
		for _, field := range statement.Schema.Fields {
			_, _ = fmt.Fprintf(hash, "%q %q %v %q\n", statement.Table, field.DBName, field.FieldType, field.Tag)
		}
	}
	return modelSet{Fingerprint: hex.EncodeToString(hash.Sum(nil))}, nil
}
