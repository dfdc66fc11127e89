package gormstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/internal/txn"
)

//go:embed migrations
var migrations embed.FS

// Migrations returns the migrations as files, in the folders postgres, sqlite and mysql, for goose, golang-migrate and
// atlas. Each may be run again at any time. Each only adds, so that two releases of an app can share the tables.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// Migrate creates the tables, or brings them up to date. Any number of instances may call it at once: on PostgreSQL an
// advisory lock lets one of them run at a time. It changes no table of the app. The table idempotency_migration lists the
// migrations that have run. Migrate does not run these again: even CREATE INDEX IF NOT EXISTS would wait for all running
// attempts, and all new attempts would wait for it.
//
// On PostgreSQL a migration waits for at most a second for a table that others use. Then Migrate fails, and has changed
// nothing: call it again. On MariaDB each of its statements commits by itself and may run again, also beside another
// instance's.
//
// Migrate uses the schema of the search path that has the tables. If no schema of the database has them, it creates them in
// the first schema of the search path that is configured for the role and database. If another schema has them, too, or
// alone, it refuses: every key would be free in new tables (F-6). [InSchema] names the schema.
func Migrate(ctx context.Context, db *gorm.DB, options ...Option) error {
	d, err := txn.DialectOf(db.Dialector.Name())
	if err != nil {
		return fmt.Errorf("idem: gormstore.Migrate: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return fmt.Errorf("idem: gormstore.Migrate: %w", err)
	}
	files, err := fs.Glob(migrations, "migrations/"+d.Migrations+"/*.sql") // sorted by name
	if err != nil {
		return fmt.Errorf("idem: gormstore.Migrate: %w", err)
	}
	tx, err := pool.BeginTx(ctx, d.TxOptions())
	if err != nil {
		return fmt.Errorf("idem: gormstore.Migrate: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := d.BeforeMigrating(ctx, tx, optionsOf(options).Schema); err != nil {
		return fmt.Errorf("idem: gormstore.Migrate: %w", err)
	}
	done, err := migrated(ctx, tx)
	if err != nil {
		return fmt.Errorf("idem: gormstore.Migrate: %w", err)
	}
	for _, file := range files {
		if slices.Contains(done, path.Base(file)) {
			continue
		}
		text, err := migrations.ReadFile(file)
		if err != nil {
			return fmt.Errorf("idem: gormstore.Migrate: %w", err)
		}
		if err := execAll(ctx, tx, d, string(text)); err != nil {
			if txn.SQLState(err) == txn.LockNotAvailable {
				err = fmt.Errorf("a statement or transaction that takes long has held a table (pg_stat_activity shows it, on MariaDB "+
					"information_schema.innodb_trx). On PostgreSQL Migrate has changed nothing; on MariaDB it goes on where it was. "+
					"Commands go on: call Migrate again: %w", err)
			}
			return fmt.Errorf("idem: gormstore.Migrate: %s: %w", file, err)
		}
		const note = "INSERT INTO idempotency_migration (name) VALUES ($1)" // every database knows this form
		if err := execAll(ctx, tx, d, note, path.Base(file)); err != nil && !d.IsThere(err) {
			return fmt.Errorf("idem: gormstore.Migrate: %w", err)
		}
	}
	return tx.Commit()
}

// execAll runs a text, in which there may be many statements.
func execAll(ctx context.Context, tx *sql.Tx, d *txn.Dialect, text string, args ...any) error {
	all := []string{text}
	if d.Bind != nil {
		all, args = strings.Split(strings.TrimSuffix(d.Bind(text, args), ";\n"), ";\n"), nil
	}
	for _, one := range all {
		if _, err := tx.ExecContext(ctx, one, args...); err != nil {
			return err
		}
	}
	return nil
}

// migrated lists the migrations that Migrate has run before. Migrate runs a migration that another tool has run once
// more, which changes nothing.
func migrated(ctx context.Context, tx *sql.Tx) (names []string, err error) {
	const create = "CREATE TABLE IF NOT EXISTS idempotency_migration (name varchar(255) NOT NULL PRIMARY KEY)"
	if _, err := tx.ExecContext(ctx, create); err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, "SELECT name FROM idempotency_migration")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
