package gormstore_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// Row-level security on an app's tables is the handler's to satisfy, with SET LOCAL. On the library's own tables it can
// only hide records: then nothing is run, or nothing stays of what has run.
//
// CONTRACT X-9, M-6
func TestRowLevelSecurity(t *testing.T) {
	t.Parallel()
	address := try(url.Parse(pgtest.URL(t))).ok(t)
	admin := openPostgres(t, address.String(), 2)
	migrate(t, admin)
	role, schema := newRole(t, admin), currentSchema(t, admin)
	execute(t, admin, "ALTER ROLE "+role+" LOGIN PASSWORD 'app'", "GRANT USAGE ON SCHEMA "+schema+" TO "+role,
		"GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO "+role, "GRANT ALL ON ALL SEQUENCES IN SCHEMA "+schema+" TO "+role,
		"ALTER TABLE effects ENABLE ROW LEVEL SECURITY",
		"CREATE POLICY tenant ON effects USING (name = current_setting('app.tenant', true))")
	address.User = url.UserPassword(role, "app")
	st := newStore(t, openPostgres(t, address.String(), 4))
	as := func(tx *gorm.DB, tenant string) error {
		return tx.Exec("SELECT set_config('app.tenant', ?, true)", tenant).Error
	}

	paidFor := command(store.Rollback)
	tx, ctx := begin(t, st, paidFor)
	require.Error(t, gormstore.Tx(ctx).Transaction(stock), "no tenant")
	require.NoError(t, as(gormstore.Tx(ctx), "stock"))
	require.NoError(t, stock(gormstore.Tx(ctx)))
	require.NoError(t, seal(t.Context(), tx, paid(), false))
	requireCompleted(t, st, paidFor, paid())
	require.Equal(t, 1, countEffects(t, admin))

	execute(t, admin, "ALTER TABLE idempotency_record ENABLE ROW LEVEL SECURITY",
		"CREATE POLICY tenant ON idempotency_record USING (coalesce(current_setting('app.tenant', true), '') = '')")
	tx, ctx = begin(t, st, command(store.Rollback))
	require.NoError(t, as(gormstore.Tx(ctx), "stock"))
	require.NoError(t, stock(gormstore.Tx(ctx)))
	require.ErrorIs(t, seal(t.Context(), tx, paid(), false), store.ErrRetryable, "its own record is hidden from it")
	require.Equal(t, 1, countEffects(t, admin))

	execute(t, admin, "ALTER POLICY tenant ON idempotency_record USING (false) WITH CHECK (true)")
	require.ErrorContains(t, newStore(t, openPostgres(t, address.String(), 4)).Validate(t.Context()), "row-level security")
	tx, ctx = begin(t, st, again(paidFor)) // the self-test was before, and what it cannot see may be there
	require.NoError(t, as(gormstore.Tx(ctx), "stock"))
	require.NoError(t, stock(gormstore.Tx(ctx)))
	require.ErrorIs(t, seal(t.Context(), tx, paid(), false), store.ErrStale)
	require.Equal(t, 1, countEffects(t, admin))
}
