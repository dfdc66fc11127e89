package database

import (
	"context"
	"fmt"

	"gorm.io/gorm"
)

// migrationLock is the advisory lock that instances of the example apps take turns by.
const migrationLock = 0x6964656d // "idem"

// Migrate creates the tables of the models, or adds what they lack. Several instances may start at once: on
// PostgreSQL they take turns, because AutoMigrate alone fails where two of them create the same table.
func Migrate(ctx context.Context, db *gorm.DB, models ...any) error {
	err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if tx.Name() == "postgres" {
			if err := tx.Exec("SELECT pg_advisory_xact_lock(?)", migrationLock).Error; err != nil {
				return err
			}
		}
		return tx.AutoMigrate(models...)
	})
	if err != nil {
		return fmt.Errorf("migrate the tables: %w", err)
	}
	return nil
}
