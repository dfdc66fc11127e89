package gormstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"gorm.io/gorm"
)

//go:embed migrations
var migrations embed.FS

// Migrations returns the migrations as files, in the folders postgres and sqlite, for goose, golang-migrate and atlas.
// Each may be run again at any time, and each only adds: two releases of an app can share the tables.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// Migrate creates the tables, or brings them up to date. Any number of instances may call it at once: on PostgreSQL
// they take turns by an advisory lock of the transaction. It touches no table of the app.
func Migrate(ctx context.Context, db *gorm.DB) error {
	d, err := dialectOf(db.Dialector.Name())
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return fmt.Errorf("idem: gormstore.Migrate: %w", err)
	}
	files, err := fs.Glob(migrations, "migrations/"+d.name+"/*.sql") // sorted by name
	if err != nil {
		return fmt.Errorf("idem: gormstore.Migrate: %w", err)
	}
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("idem: gormstore.Migrate: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if d == postgres {
		if _, err := tx.ExecContext(ctx, waitLock, lockSpace, 0); err != nil {
			return fmt.Errorf("idem: gormstore.Migrate: wait for the other instances: %w", err)
		}
	}
	for _, file := range files {
		text, err := migrations.ReadFile(file)
		if err != nil {
			return fmt.Errorf("idem: gormstore.Migrate: %w", err)
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("idem: gormstore.Migrate: %s: %w", file, err)
		}
	}
	return tx.Commit()
}
