package gormstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// unique is a business row that can be there once.
type unique struct {
	ID   uint
	Name string `gorm:"not null;uniqueIndex"`
}

// CONTRACT X-0
func TestTxEnds(t *testing.T) {
	t.Parallel()
	transactions(t, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		require.NoError(t, db.AutoMigrate(&unique{}))
		require.NoError(t, db.Create(&unique{Name: "taken"}).Error)
		store := newStore(t, db)
		violate := func(ctx context.Context) error { return gormstore.Tx(ctx).Create(&unique{Name: "taken"}).Error }
		effects := 0

		t.Run("rows and answer commit together", func(t *testing.T) {
			c := command(core.Rollback)
			tx, ctx := begin(t, store, c)
			require.NoError(t, addEffect(ctx))
			requireNothing(t, store, c)
			require.Equal(t, effects, countEffects(t, db))
			require.NoError(t, tx.Commit(t.Context(), paid(), false))
			effects++
			requireCompleted(t, store, c, paid())
			require.Equal(t, effects, countEffects(t, db))
		})

		t.Run("a refusal keeps the answer and undoes the rows", func(t *testing.T) {
			c := command(core.Rollback)
			tx, ctx := begin(t, store, c)
			require.NoError(t, addEffect(ctx))
			require.NoError(t, tx.Commit(t.Context(), refused(), true))
			requireCompleted(t, store, c, refused())
			require.Equal(t, effects, countEffects(t, db))
		})

		t.Run("a refusal after a failed statement keeps the answer alone", func(t *testing.T) {
			c := command(core.Rollback)
			tx, ctx := begin(t, store, c)
			require.NoError(t, addEffect(ctx))
			require.Error(t, violate(ctx))
			require.NoError(t, tx.Commit(t.Context(), refused(), true))
			requireCompleted(t, store, c, refused())
			require.Equal(t, effects, countEffects(t, db))
		})

		t.Run("a success on an aborted transaction is none", func(t *testing.T) {
			c := command(core.Rollback)
			tx, ctx := begin(t, store, c)
			require.NoError(t, addEffect(ctx))
			require.Error(t, violate(ctx))
			err := tx.Commit(t.Context(), paid(), false)
			if db.Name() == "sqlite" { // where a failed statement does not abort the transaction
				require.NoError(t, err)
				effects++
				requireCompleted(t, store, c, paid())
			} else {
				require.ErrorIs(t, err, core.ErrAborted)
				requireFree(t, store, c, time.Second)
			}
			require.Equal(t, effects, countEffects(t, db))
		})

		t.Run("a failed statement in a transaction inside the attempt aborts only that", func(t *testing.T) {
			c := command(core.Rollback)
			tx, ctx := begin(t, store, c)
			require.NoError(t, addEffect(ctx))
			require.Error(t, gormstore.Tx(ctx).Transaction(func(inner *gorm.DB) error {
				require.NoError(t, inner.Create(&effect{Name: "inner"}).Error)
				return inner.Create(&unique{Name: "taken"}).Error
			}))
			require.NoError(t, gormstore.Tx(ctx).Transaction(func(inner *gorm.DB) error {
				return inner.Create(&effect{Name: "inner, again"}).Error
			}))
			require.NoError(t, tx.Commit(t.Context(), paid(), false))
			effects += 2
			require.Equal(t, effects, countEffects(t, db))
		})

		t.Run("after the end everything is refused", func(t *testing.T) {
			for name, end := range map[string]func(core.Tx) error{
				"commit":   func(tx core.Tx) error { return tx.Commit(t.Context(), refused(), true) },
				"rollback": func(tx core.Tx) error { return tx.Rollback() },
			} {
				tx, ctx := begin(t, store, command(core.Rollback))
				handle, _ := gormstore.SQLTx(ctx)
				rows, err := handle.QueryContext(ctx, "SELECT id FROM uniques") //nolint:rowserrcheck,sqlclosecheck // left open
				require.NoError(t, err)
				inner := gormstore.Tx(ctx)
				require.NoError(t, end(tx))

				const over = "the attempt is over"
				late := context.WithoutCancel(ctx) // as in a goroutine that was left behind
				require.ErrorContains(t, addEffect(late), over, name)
				require.ErrorContains(t, inner.WithContext(late).Exec("DELETE FROM effects").Error, over)
				require.ErrorContains(t, inner.WithContext(late).First(&unique{}).Error, over)
				_, err = handle.ExecContext(late, "DELETE FROM effects")
				require.ErrorContains(t, err, over)
				var id int
				require.Error(t, handle.QueryRowContext(late, "DELETE FROM effects RETURNING id").Scan(&id))
				require.False(t, rows.Next(), "rows end with the attempt")
				<-ctx.Done() // soon, not at once
				require.ErrorContains(t, context.Cause(ctx), over)
				require.Equal(t, effects, countEffects(t, db))
			}
		})

		t.Run("a handler ends nothing itself", func(t *testing.T) {
			c := command(core.Rollback)
			tx, ctx := begin(t, store, c)
			require.NoError(t, addEffect(ctx))
			const not = "ends its own transaction"
			require.ErrorContains(t, gormstore.Tx(ctx).Commit().Error, not)
			require.ErrorContains(t, gormstore.Tx(ctx).Rollback().Error, not)
			require.ErrorIs(t, gormstore.Tx(ctx).Begin().Error, gorm.ErrInvalidTransaction)
			handle, _ := gormstore.SQLTx(ctx)
			_, err := handle.PrepareContext(ctx, "DELETE FROM effects") //nolint:sqlclosecheck // there is none
			require.ErrorContains(t, err, "cannot use prepared statements")
			require.NoError(t, tx.Commit(t.Context(), paid(), false))
			effects++
			requireCompleted(t, store, c, paid())
			require.Equal(t, effects, countEffects(t, db))
		})
	})
}

// Rows that a handler has not read to their end hold the connection, and a row that was never scanned does.
//
// CONTRACT X-0
func TestTxWithRowsLeftOpen(t *testing.T) {
	t.Parallel()
	transactions(t, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		require.NoError(t, db.Create([]effect{{Name: "a"}, {Name: "b"}, {Name: "c"}}).Error)
		store := newStore(t, db)
		left := map[string]func(*testing.T, context.Context){
			"rows": func(t *testing.T, ctx context.Context) {
				rows, err := gormstore.Tx(ctx).Raw("SELECT id FROM effects").Rows() //nolint:rowserrcheck,sqlclosecheck // left open
				require.NoError(t, err)
				require.True(t, rows.Next())
			},
			"row": func(t *testing.T, ctx context.Context) {
				require.NoError(t, gormstore.Tx(ctx).Raw("SELECT id FROM effects").Row().Err())
			},
		}
		for name, leave := range left {
			for _, commit := range []bool{true, false} {
				t.Run(name, func(t *testing.T) {
					c := command(core.Rollback)
					tx, ctx := begin(t, store, c)
					require.NoError(t, addEffect(ctx))
					before := countEffects(t, db)
					leave(t, ctx)
					begun := time.Now()
					err := tx.Rollback
					if commit {
						err = func() error { return tx.Commit(t.Context(), paid(), false) }
					}
					switch err := err(); {
					case commit && err == nil:
						requireCompleted(t, store, c, paid())
						require.Equal(t, before+1, countEffects(t, db))
					case commit:
						require.ErrorIs(t, err, core.ErrRetryable)
						require.Equal(t, "row", name, "rows can be closed")
						requireFree(t, store, c, 5*time.Second)
					default:
						require.NoError(t, err)
						requireFree(t, store, c, 5*time.Second)
					}
					require.Less(t, time.Since(begun), deadline/2, "it does not wait for the deadline")
				})
			}
		}
	})
}

// A COMMIT can fail like any statement: here by a constraint that is checked then.
//
// CONTRACT
func TestTxDeferredConstraint(t *testing.T) {
	t.Parallel()
	transactions(t, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		require.NoError(t, db.Exec("CREATE TABLE parents (id int PRIMARY KEY)").Error)
		require.NoError(t, db.Exec("CREATE TABLE children (parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED)").Error)
		store := newStore(t, db)
		c := command(core.Rollback)
		tx, ctx := begin(t, store, c)
		require.NoError(t, gormstore.Tx(ctx).Exec("INSERT INTO children VALUES (1)").Error)
		err := tx.Commit(t.Context(), paid(), false)
		require.ErrorIs(t, err, core.ErrAborted)
		require.NotErrorIs(t, err, core.ErrRetryable)
		requireNothing(t, store, c)
		requireFree(t, store, c, time.Second)
	})
}
