package gormstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
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
	onDatabases(t, transactionKinds, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		require.NoError(t, db.AutoMigrate(&unique{}))
		require.NoError(t, db.Create(&unique{Name: "taken"}).Error)
		st := newStore(t, db)
		violate := func(ctx context.Context) error { return gormstore.Tx(ctx).Create(&unique{Name: "taken"}).Error }
		effects := 0

		t.Run("a refusal after a failed statement keeps the answer alone", func(t *testing.T) {
			c := command(store.Rollback)
			tx, ctx := beginRow(t, st, c)
			require.Error(t, violate(ctx))
			require.NoError(t, seal(t.Context(), tx, refused(), true))
			requireCompleted(t, st, c, refused())
			require.Equal(t, effects, countEffects(t, db))
		})

		t.Run("a success on an aborted transaction is none", func(t *testing.T) {
			c := command(store.Rollback)
			tx, ctx := beginRow(t, st, c)
			require.Error(t, violate(ctx))
			err := seal(t.Context(), tx, paid(), false)
			if db.Name() == "sqlite" { // where a failed statement does not abort the transaction
				require.NoError(t, err)
				effects++
				requireCompleted(t, st, c, paid())
			} else {
				require.ErrorIs(t, err, store.ErrAborted)
				requireFree(t, st, c)
			}
			require.Equal(t, effects, countEffects(t, db))
		})

		t.Run("a failed statement in a transaction inside the attempt aborts only that", func(t *testing.T) {
			c := command(store.Rollback)
			tx, ctx := beginRow(t, st, c)
			require.Error(t, gormstore.Tx(ctx).Transaction(func(inner *gorm.DB) error {
				require.NoError(t, inner.Create(&effect{Name: "inner"}).Error)
				return inner.Create(&unique{Name: "taken"}).Error
			}))
			require.NoError(t, gormstore.Tx(ctx).Transaction(func(inner *gorm.DB) error {
				return inner.Create(&effect{Name: "inner, again"}).Error
			}))
			require.NoError(t, seal(t.Context(), tx, paid(), false))
			effects += 2
			require.Equal(t, effects, countEffects(t, db))
		})

		t.Run("after the end everything is refused", func(t *testing.T) {
			for name, end := range map[string]func(store.Attempt) error{
				"commit":   func(tx store.Attempt) error { return seal(t.Context(), tx, refused(), true) },
				"rollback": func(tx store.Attempt) error { return tx.Rollback() },
			} {
				tx, ctx := begin(t, st, command(store.Rollback))
				handle, _ := gormstore.SQLTx(ctx)
				rows := try(handle.QueryContext(ctx, "SELECT id FROM uniques")).ok(t) //nolint:rowserrcheck,sqlclosecheck // left open
				inner := gormstore.Tx(ctx)
				require.NoError(t, end(tx))

				const over = "the attempt is over"
				late := context.WithoutCancel(ctx) // as in a goroutine that was left behind
				require.ErrorContains(t, addEffect(late), over, name)
				require.ErrorContains(t, inner.WithContext(late).Exec("DELETE FROM effects").Error, over)
				require.ErrorContains(t, inner.WithContext(late).First(&unique{}).Error, over)
				require.ErrorContains(t, err2(handle.ExecContext(late, "DELETE FROM effects")), over)
				var id int
				require.Error(t, handle.QueryRowContext(late, "DELETE FROM effects RETURNING id").Scan(&id))
				require.False(t, rows.Next(), "rows end with the attempt")
				<-ctx.Done() // soon, not at once
				require.ErrorContains(t, context.Cause(ctx), over)
				require.Equal(t, effects, countEffects(t, db))
			}
		})

		t.Run("a handler ends nothing itself", func(t *testing.T) {
			c := command(store.Rollback)
			tx, ctx := beginRow(t, st, c)
			const not = "ends its own transaction"
			require.ErrorContains(t, gormstore.Tx(ctx).Commit().Error, not)
			require.ErrorContains(t, gormstore.Tx(ctx).Rollback().Error, not)
			require.ErrorIs(t, gormstore.Tx(ctx).Begin().Error, gorm.ErrInvalidTransaction)
			handle, _ := gormstore.SQLTx(ctx)
			_, err := handle.PrepareContext(ctx, "DELETE FROM effects") //nolint:sqlclosecheck // there is none
			require.ErrorContains(t, err, "cannot use prepared statements")
			require.NoError(t, seal(t.Context(), tx, paid(), false))
			effects++
			requireCompleted(t, st, c, paid())
			require.Equal(t, effects, countEffects(t, db))
		})
	})
}

// What a handler leaves unread is closed, and its transaction ends as if it had been read.
//
// CONTRACT
func TestTxWithRowsLeftOpen(t *testing.T) {
	t.Parallel()
	onDatabases(t, transactionKinds, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		require.NoError(t, db.Create([]effect{{Name: "a"}, {Name: "b"}, {Name: "c"}}).Error)
		left := map[string]work{
			"rows": func(tx *gorm.DB) error {
				rows, err := tx.Raw("SELECT id FROM effects").Rows() //nolint:rowserrcheck,sqlclosecheck // left open
				require.True(t, rows.Next())
				return err
			},
			"row":         func(tx *gorm.DB) error { return tx.Raw("SELECT id FROM effects").Row().Err() },
			"row of none": func(tx *gorm.DB) error { return tx.Raw("SELECT id FROM effects WHERE false").Row().Err() },
		}
		for name, leave := range left {
			for way, run := range attempts {
				t.Run(way+", "+name, func(t *testing.T) {
					before := countEffects(t, db)
					require.NoError(t, run(t, db, func(tx *gorm.DB) error { return errors.Join(stock(tx), leave(tx)) }))
					require.Equal(t, before+1, countEffects(t, db))
				})
			}
		}
		st := newStore(t, db)
		for name, leave := range left {
			c := command(store.Rollback)
			tx, ctx := begin(t, st, c)
			require.NoError(t, leave(gormstore.Tx(ctx)))
			require.NoError(t, seal(t.Context(), tx, refused(), true), name)
			requireCompleted(t, st, c, refused())

			c = command(store.Rollback)
			tx, ctx = begin(t, st, c)
			require.NoError(t, leave(gormstore.Tx(ctx)))
			require.NoError(t, tx.Rollback(), name)
			requireFree(t, st, c)
		}
	})
}

// A message in an attempt leaves no rows to the rest of the attempt.
//
// CONTRACT
func TestMessageWithRowsLeftOpen(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		failure := errors.New("failed")
		for _, failed := range []error{nil, failure} {
			before := countEffects(t, db)
			require.NoError(t, attempts["attempt"](t, db, func(tx *gorm.DB) error {
				require.ErrorIs(t, newInbox(t, db, stockInbox).Process(tx.Statement.Context, message(), func(tx *gorm.DB) error {
					return errors.Join(stock(tx), tx.Raw("SELECT id FROM effects").Row().Err(), failed)
				}), failed)
				return stock(tx)
			}))
			if failed == nil {
				before++
			}
			require.Equal(t, before+1, countEffects(t, db))
		}
	})
}

// A row is scanned as database/sql does it: every type, no row, a wrong column, an error of the server behind the first row.
// A row that is scanned after the end has an error of its own, because "no rows" would be an answer.
//
// CONTRACT
func TestRowOfAnAttempt(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		tx, ctx := begin(t, newStore(t, db), command(store.Rollback))
		handle, _ := gormstore.SQLTx(ctx)
		pool := try(db.DB()).ok(t)
		const values = "SELECT 7, -1.5, 'text', NULL, CAST('bytes' AS %s), %s"
		query := fmt.Sprintf(values, "bytea", "now()::timestamptz(0)")
		if db.Name() == "sqlite" {
			query = fmt.Sprintf(values, "blob", "true")
		}
		var plain, ours [6]any
		scan := func(into *[6]any) []any { return []any{&into[0], &into[1], &into[2], &into[3], &into[4], &into[5]} }
		require.NoError(t, pool.QueryRowContext(ctx, query).Scan(scan(&plain)...))
		require.NoError(t, handle.QueryRowContext(ctx, query).Scan(scan(&ours)...))
		if db.Name() == "postgres" {
			plain[5], ours[5] = plain[5].(time.Time).Location(), ours[5].(time.Time).Location()
		}
		require.Equal(t, plain, ours)
		var n sql.NullInt64
		require.NoError(t, handle.QueryRowContext(ctx, "SELECT NULL").Scan(&n))
		require.False(t, n.Valid)
		require.ErrorIs(t, handle.QueryRowContext(ctx, "SELECT 1 WHERE false").Scan(&n), sql.ErrNoRows)
		require.ErrorContains(t, handle.QueryRowContext(ctx, "SELECT 1, 2").Scan(&n), "expected 2 destination arguments")
		require.ErrorContains(t, handle.QueryRowContext(ctx, "COMMIT").Scan(&n), "must not end")
		late := handle.QueryRowContext(ctx, "SELECT 1")
		require.NoError(t, late.Err())
		require.NoError(t, seal(t.Context(), tx, paid(), false))
		require.ErrorContains(t, late.Scan(&n), "the attempt is over")
		require.ErrorContains(t, handle.QueryRowContext(context.WithoutCancel(ctx), "SELECT 1").Scan(&n), "the attempt is over")
	})
}

// A COMMIT can fail like any statement: here by a constraint that is checked then.
//
// CONTRACT
func TestTxDeferredConstraint(t *testing.T) {
	t.Parallel()
	onDatabases(t, transactionKinds, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		require.NoError(t, db.Exec("CREATE TABLE parents (id int PRIMARY KEY)").Error)
		require.NoError(t, db.Exec("CREATE TABLE children (parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED)").Error)
		st := newStore(t, db)
		c := command(store.Rollback)
		tx, ctx := begin(t, st, c)
		require.NoError(t, gormstore.Tx(ctx).Exec("INSERT INTO children VALUES (1)").Error)
		err := seal(t.Context(), tx, paid(), false)
		require.ErrorIs(t, err, store.ErrAborted)
		require.NotErrorIs(t, err, store.ErrRetryable)
		requireNothing(t, st, c)
		requireFree(t, st, c)
	})
}
