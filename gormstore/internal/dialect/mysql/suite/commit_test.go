package suite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	gormysql "gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// A COMMIT that fails with an error that may come before it or behind it is read back: a node of a cluster says 1180 when it
// loses the others while they get the transaction.
//
// CONTRACT X-4
func TestCommitFailsWithAnErrorOfTheServer(t *testing.T) {
	_, address := migrated(t)
	config, err := mysql.ParseDSN(address)
	require.NoError(t, err)
	under, err := mysql.NewConnector(config)
	require.NoError(t, err)
	fails := &failing{Connector: under}
	pool := sql.OpenDB(fails)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	db, err := gorm.Open(gormysql.New(gormysql.Config{Conn: pool}))
	require.NoError(t, err)
	st := newStore(t, db)
	for name, one := range map[string]struct {
		instead string
		number  uint16
	}{
		"it has committed": {"COMMIT", 1180}, "it has not": {"ROLLBACK", 1180},
		"in vain, and committed": {"COMMIT", 1205}, "in vain": {"ROLLBACK", 1205},
	} {
		t.Run(name, func(t *testing.T) {
			instead, before := one.instead, effects(t, db)
			c := command(core.Rollback)
			a, ctx := begin(t, st, c)
			require.NoError(t, stock(gormstore.Tx(ctx)))
			fails.next.Store(&mysql.MySQLError{Number: one.number, SQLState: [5]byte([]byte("HY000")), Message: instead})
			_, err := a.Seal(t.Context(), answered())
			if instead == "COMMIT" {
				require.NoError(t, err)
				require.Equal(t, before+1, effects(t, db))
				return
			}
			require.ErrorIs(t, err, store.ErrRetryable)
			require.Equal(t, before, effects(t, db))
			begin(t, st, again(c)) // the key is free
		})
	}
}

// failing are connections on which a COMMIT fails.
type failing struct {
	driver.Connector
	next atomic.Pointer[mysql.MySQLError] // the error of the next COMMIT. Its text is sent instead
}

func (f *failing) Connect(ctx context.Context) (driver.Conn, error) {
	under, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return failingConn{under.(whole), f}, nil
}

// whole is what the driver's connections can.
type whole interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type failingConn struct {
	whole
	of *failing
}

func (c failingConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if next := c.of.next.Load(); next != nil && strings.EqualFold(text, "COMMIT") {
		c.of.next.Store(nil)
		if _, err := c.whole.ExecContext(ctx, next.Message, nil); err != nil {
			return nil, err
		}
		return nil, next
	}
	return c.whole.ExecContext(ctx, text, args)
}
