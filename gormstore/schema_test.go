package gormstore_test

import (
	"context"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// Instances that start at once take turns.
//
// CONTRACT F-2
func TestMigrateAtOnce(t *testing.T) {
	url := pgtest.URL(t)
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		db := openPostgres(t, url, 2)
		wg.Go(func() { errs <- gormstore.Migrate(t.Context(), db) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, newStore(t, openPostgres(t, url, 4)).Validate(t.Context()))
}

// An instance that starts beside others must not stop them: no statement of an up-to-date Migrate waits for a running
// attempt, so that nobody waits behind it.
//
// CONTRACT F-2
func TestMigrateDoesNotWaitForAttempts(t *testing.T) {
	url := pgtest.URL(t)
	db := openPostgres(t, url, 8)
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	store := newStore(t, db)
	tx, claimed, err := store.Begin(t.Context(), command(core.Rollback))
	require.NoError(t, err)
	require.True(t, claimed.Won)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, gormstore.Migrate(ctx, openPostgres(t, url, 2)))
	require.NoError(t, tx.Rollback())
}

// The files are for other tools: they may run in any order of tools, and more than once.
func TestMigrationsAreFiles(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			db := d.fresh(t)(t)
			files, err := fs.Glob(gormstore.Migrations(), db.Name()+"/*.sql")
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, file := range files {
				text, err := fs.ReadFile(gormstore.Migrations(), file)
				require.NoError(t, err)
				require.NoError(t, db.Exec(string(text)).Error, "again: %s", file)
			}
			require.NoError(t, gormstore.Migrate(t.Context(), db), "and once more by ourselves")
		})
	}
}
