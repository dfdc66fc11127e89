package gormstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm/clause"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// A row that is locked past the attempt is not locked when the attempt writes: two transfers would spend one balance. In the
// attempt's transaction the same read is what a handler needs.
//
// CONTRACT X-6
func TestWriteGuardsRefuseLocksOutside(t *testing.T) {
	t.Parallel()
	address := migratedURL(t)
	db := openPostgres(t, address, 16)
	onPool := newStore(t, db)
	pool := guardedSQL(t, address, nil)
	below := newPool(t, address, gormstore.PgxWriteGuard())
	_, ctx := begin(t, onPool, command(core.Rollback))

	const text = "SELECT count(*) FROM (SELECT id FROM effects FOR UPDATE) e"
	forUpdate := clause.Locking{Strength: "UPDATE"}
	for guard, err := range map[string]error{
		"GORM":            db.WithContext(ctx).Clauses(forUpdate).Find(new([]effect)).Error,
		"GORM, raw":       db.WithContext(ctx).Raw(text).Scan(new(int)).Error,
		"SQLWriteGuard":   pool.QueryRowContext(ctx, text).Scan(new(int)),
		"PgxWriteGuard":   below.QueryRow(ctx, text).Scan(new(int)),
		"GORM, FOR SHARE": db.WithContext(ctx).Clauses(clause.Locking{Strength: "SHARE"}).Find(new([]effect)).Error,
	} {
		require.ErrorIs(t, err, gormstore.ErrOutsideTransaction, guard)
		require.ErrorContains(t, err, "This locks rows", guard)
	}

	require.NoError(t, gormstore.Tx(ctx).Clauses(forUpdate).Find(new([]effect)).Error)
	require.NoError(t, db.WithContext(gormstore.Outside(ctx)).Clauses(forUpdate).Find(new([]effect)).Error)
	require.NoError(t, pool.QueryRowContext(gormstore.Outside(ctx), text).Scan(new(int)))
	require.NoError(t, below.QueryRow(t.Context(), text).Scan(new(int)))
}
