package suite

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"net/http"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// command is a claim of a new key.
func command(r core.Recovery) store.Claim {
	p := core.Principal{Issuer: "https://issuer.example", Tenant: "t-1", Subject: "u-1"}
	key := rand.Text()
	c := store.Claim{
		ID: core.Scoping{}.RecordID(p, key), Scope: core.Scoping{}.PrincipalScope(p), Realm: core.Scoping{}.PrincipalRealm(p),
		Method: http.MethodPost, Route: "/v1/payments", Recovery: r,
		Hash:  store.CommandHash{Version: 1, Sum: sha256.Sum256([]byte(key))},
		Lease: 30 * time.Second, Deadline: time.Minute, Window: around(),
	}
	return again(c)
}

// again is the claim of a repeat.
func again(c store.Claim) store.Claim {
	_, _ = rand.Read(c.Owner[:])
	return c
}

// begin begins an attempt, and returns its handler's context.
func begin(t *testing.T, st *gormstore.Store, c store.Claim) (store.Attempt, context.Context) {
	t.Helper()
	a, claimed, err := st.Begin(t.Context(), c)
	require.NoError(t, err)
	require.True(t, claimed.Won, "%+v", claimed)
	t.Cleanup(func() { _ = a.Rollback() })
	return a, a.Bind(t.Context(), nil)
}

// A reference is no row of the handler's, although its statement has the values in its text.
//
// CONTRACT X-11
func TestWhatAnAttemptHasWritten(t *testing.T) {
	db, _ := migrated(t)
	st := newStore(t, db)
	for name, one := range map[string]struct {
		wrote bool
		work  func(ctx context.Context, c store.Claim) error
	}{
		"nothing": {false, func(context.Context, store.Claim) error { return nil }},
		"a read":  {false, func(ctx context.Context, _ store.Claim) error { return gormstore.Tx(ctx).Exec("SELECT 1").Error }},
		"a row":   {true, func(ctx context.Context, _ store.Claim) error { return stock(gormstore.Tx(ctx)) }},
		"a reference": {false, func(ctx context.Context, c store.Claim) error {
			return st.Refer(ctx, c.ID, c.Realm, store.Ref{Name: "order", Value: "7"})
		}},
	} {
		c := command(core.Rollback)
		a, ctx := begin(t, st, c)
		require.NoError(t, one.work(ctx, c), name)
		require.Equal(t, one.wrote, a.Statements().Wrote, name)
		require.NoError(t, a.Rollback())
	}
}

// The guard around a connector refuses what goes past an attempt, and lets the library's own statements pass.
//
// CONTRACT X-6
func TestSQLWriteGuard(t *testing.T) {
	_, address := migrated(t)
	config, err := driver.ParseDSN(address)
	require.NoError(t, err)
	connector, err := driver.NewConnector(config)
	require.NoError(t, err)
	pool := sql.OpenDB(gormstore.SQLWriteGuard(connector))
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	db, err := gorm.Open(mysql.New(mysql.Config{Conn: pool}), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool.SetMaxOpenConns(8)
	st := newStore(t, db)
	c := command(core.Rollback)
	a, ctx := begin(t, st, c)
	_, err = pool.ExecContext(ctx, "INSERT INTO effects (name) VALUES ('past')")
	require.ErrorIs(t, err, gormstore.ErrOutsideTransaction)
	_, err = pool.ExecContext(ctx, "SELECT 1 # '\n; DELETE FROM effects; -- '")
	require.ErrorIs(t, err, gormstore.ErrOutsideTransaction, "it is read as the database reads it")
	require.NoError(t, pool.QueryRowContext(ctx, "SELECT DATE_ADD(NOW(), INTERVAL 1 DAY)").Scan(new(string)))
	require.NoError(t, stock(gormstore.Tx(ctx)))
	claimed, err := st.Claim(ctx, command(core.Park))
	require.NoError(t, err)
	require.True(t, claimed.Won)
	require.NoError(t, a.Rollback())
	require.Zero(t, effects(t, db))
}
