package suite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/mariatest"
)

// A statement behind the one whose rows a handler reads has failed, and has ended the transaction: the driver says so only behind
// the rows. What the handler sends next would commit by itself, so it is not sent, however the rows were read.
//
// CONTRACT
func TestWhatFailsBehindRows(t *testing.T) {
	address := mariatest.AddressWith(t, "--innodb-rollback-on-timeout=1") + "?multiStatements=true&innodb_lock_wait_timeout=1"
	db := open(t, address)
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	for _, text := range []string{
		"CREATE TABLE effects (name varchar(255) NOT NULL) ENGINE=InnoDB", "CREATE TABLE accounts (id int PRIMARY KEY) ENGINE=InnoDB",
		"INSERT INTO accounts VALUES (1)",
		"CREATE PROCEDURE waits() BEGIN SELECT 1; UPDATE accounts SET id = 2; END",
	} {
		require.NoError(t, db.Exec(text).Error)
	}
	tx := db.Begin()
	defer tx.Rollback()
	require.NoError(t, tx.Exec("UPDATE accounts SET id = 3").Error)
	st := newStore(t, db)
	for name, read := range map[string]func(ctx context.Context, text string) error{
		"to the end": func(ctx context.Context, text string) error { return gormstore.Tx(ctx).Raw(text).Scan(new(int)).Error },
		"one":        func(ctx context.Context, text string) error { return gormstore.Tx(ctx).Raw(text).Row().Scan(new(int)) },
		"closed": func(ctx context.Context, text string) error {
			rows, err := gormstore.Tx(ctx).Raw(text).Rows() //nolint:rowserrcheck // Close tells the error
			require.NoError(t, err)
			return rows.Close() //nolint:sqlclosecheck // its error is what the test reads
		},
		"none": func(ctx context.Context, text string) error {
			rows, err := gormstore.Tx(ctx).Raw(text).Rows() //nolint:rowserrcheck // the library closes them
			require.NoError(t, err)
			require.NotNil(t, rows)
			return nil
		},
	} {
		for _, text := range []string{"SELECT 1; UPDATE accounts SET id = 2", "CALL waits()"} {
			t.Run(name+"/"+text, func(t *testing.T) {
				a, ctx := begin(t, st, command(core.Rollback))
				require.NoError(t, stock(gormstore.Tx(ctx)))
				if err := read(ctx, text); name != "none" {
					require.ErrorContains(t, err, "1205")
				}
				require.Error(t, stock(gormstore.Tx(ctx)), "the transaction is no more")
				_, err := a.Seal(t.Context(), answered())
				require.ErrorIs(t, err, store.ErrRetryable)
				require.Zero(t, effects(t, db))
			})
		}
	}
}

// The kept age of a route is not shorter than what was kept before, whatever the address says of counted rows.
//
// CONTRACT T-6
func TestKeptAge(t *testing.T) {
	_, address := migrated(t)
	for _, options := range []string{"?clientFoundRows=false", "?clientFoundRows=true"} {
		st := newStore(t, open(t, address+options))
		keep := func(hours time.Duration) time.Duration {
			kept, err := st.KeepAge(t.Context(), []byte("service1"), "POST "+options, hours*time.Hour, around())
			require.NoError(t, err)
			return kept.Before
		}
		require.Equal(t, 20*time.Hour, keep(20))
		require.Equal(t, 10*time.Hour, keep(10))
		require.Equal(t, 10*time.Hour, keep(20), "keys from before may still be sent")
	}
}
