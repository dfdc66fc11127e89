package gormstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// booking runs a test on databases with a function book(n) that leaves something behind: booked counts it.
func booking(t *testing.T, run func(t *testing.T, db *gorm.DB, booked func() int)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		db := freshPostgres("", false)(t)(t)
		require.NoError(t, db.Exec(`CREATE FUNCTION book(n int) RETURNS int LANGUAGE sql AS
			$$ INSERT INTO effects (name) VALUES ('booked') RETURNING 1 $$`).Error)
		require.NoError(t, db.Create(&effect{Name: "there"}).Error)
		run(t, db, func() int { return countEffects(t, db) - 1 })
	})
	t.Run("sqlite", func(t *testing.T) {
		booked := 0
		db := sqliteWith(t, "book", func(driver.ExecerContext, []driver.Value) (driver.Value, error) {
			booked++
			return int64(1), nil
		})
		require.NoError(t, db.Create(&effect{Name: "there"}).Error)
		run(t, db, func() int { return booked })
	})
}

// bookings call the function in all the ways in which GORM builds a read.
var bookings = map[string]func(db *gorm.DB) error{
	"Raw":         func(db *gorm.DB) error { return db.Raw("SELECT book(7)").Scan(new(int)).Error },
	"Raw, quoted": func(db *gorm.DB) error { return db.Raw(`SELECT "book"(7)`).Scan(new(int)).Error },
	"Exec":        func(db *gorm.DB) error { return db.Exec("SELECT book(7)").Error },
	"Rows": func(db *gorm.DB) error {
		rows, err := db.Raw("SELECT book(7)").Rows()
		if err == nil {
			rows.Next()
			err = rows.Close()
		}
		return err
	},
	"Select":   func(db *gorm.DB) error { return db.Model(&effect{}).Select("book(10) AS id").Find(&[]effect{}).Error },
	"Where":    func(db *gorm.DB) error { return db.Where("book(?) > 0", 1).Find(&[]effect{}).Error },
	"Where, 2": func(db *gorm.DB) error { return db.First(&effect{}, "book(1) = 1").Error },
	"Order":    func(db *gorm.DB) error { return db.Order("book(2)").Find(&[]effect{}).Error },
	"Having": func(db *gorm.DB) error {
		return db.Model(&effect{}).Select("name").Group("name").Having("book(2) > 0").Find(&[]effect{}).Error
	},
	"Pluck": func(db *gorm.DB) error { return db.Model(&effect{}).Pluck("book(5)", &[]int{}).Error },
	"Count": func(db *gorm.DB) error { return db.Model(&effect{}).Where("book(6) > 0").Count(new(int64)).Error },
	"Joins": func(db *gorm.DB) error {
		return db.Joins("JOIN (SELECT book(3) AS n) b ON b.n > 0").Find(&[]effect{}).Error
	},
	"a subquery": func(db *gorm.DB) error {
		return db.Where("id IN (?)", db.Session(&gorm.Session{NewDB: true}).Model(&effect{}).Select("book(1)")).Find(&[]effect{}).Error
	},
	"batches": func(db *gorm.DB) error {
		return db.Where("book(1) > 0").FindInBatches(&[]effect{}, 1, func(*gorm.DB, int) error { return nil }).Error
	},
	"a transaction": func(db *gorm.DB) error {
		return db.Transaction(func(tx *gorm.DB) error { return tx.Raw("SELECT book(8)").Scan(new(int)).Error })
	},
	"a prepared statement": func(db *gorm.DB) error {
		return db.Session(&gorm.Session{PrepareStmt: true}).Raw("SELECT book(8)").Scan(new(int)).Error
	},
}

// CONTRACT X-6
func TestWriteGuardSeesFunctions(t *testing.T) {
	t.Parallel()
	booking(t, func(t *testing.T, db *gorm.DB, booked func() int) {
		all := map[string]func(db *gorm.DB) error{}
		maps.Copy(all, bookings)
		if db.Name() == "postgres" {
			all["Table"] = func(db *gorm.DB) error { return db.Table("book(9) AS b").Find(&[]map[string]any{}).Error }
			all["a schema"] = func(db *gorm.DB) error {
				return db.Raw("SELECT " + currentSchema(t, db) + ".book(9)").Scan(new(int)).Error
			}
		}
		tx, ctx := begin(t, newStore(t, db), command(core.Rollback))
		for name, book := range all {
			err := book(db.WithContext(ctx))
			require.ErrorIs(t, err, gormstore.ErrOutsideTransaction, name)
			require.ErrorContains(t, err, "gormstore.Outside(ctx)", "the fix is named")
		}
		require.Error(t, db.WithContext(ctx).Raw("SELECT book(7)").Row().Scan(new(int)))
		require.Zero(t, booked())
		if db.Name() == "postgres" { // SQLite has one writer
			require.NoError(t, db.WithContext(gormstore.Outside(ctx)).Raw("SELECT book(7)").Scan(new(int)).Error)
			require.Equal(t, 1, booked(), "what is meant to stay")
		}
		require.NoError(t, gormstore.Tx(ctx).Raw("SELECT book(7)").Scan(new(int)).Error)
		require.NoError(t, tx.Rollback())
	})
}

// ordinaryReads need nothing of their callers.
var ordinaryReads = map[string]func(db *gorm.DB) error{
	"find": func(db *gorm.DB) error {
		return db.Where("lower(name) LIKE ?", "t%").Order("id").Limit(3).Find(&[]effect{}).Error
	},
	"first": func(db *gorm.DB) error { return db.First(&effect{}).Error },
	"count": func(db *gorm.DB) error { return db.Model(&effect{}).Distinct("name").Count(new(int64)).Error },
	"sum": func(db *gorm.DB) error {
		return db.Model(&effect{}).Select("coalesce(sum(id), 0) AS id").Scan(&effect{}).Error
	},
	"in": func(db *gorm.DB) error { return db.Where("id IN ?", []int{1, 2}).Find(&[]effect{}).Error },
	"join": func(db *gorm.DB) error {
		return db.Joins("JOIN effects AS o ON o.id = effects.id AND (o.name <> '')").Find(&[]effect{}).Error
	},
	"window": func(db *gorm.DB) error {
		return db.Raw("SELECT row_number() OVER (PARTITION BY name ORDER BY id) FROM effects").Scan(&[]int{}).Error
	},
	"common table expression": func(db *gorm.DB) error {
		return db.Raw("WITH e (n) AS (SELECT id FROM effects), f (n) AS (VALUES (1)) SELECT CAST(count(*) AS numeric(9, 2)) FROM e " +
			"WHERE EXISTS (SELECT 1 FROM f) AND n IN (SELECT n FROM e)").Scan(new(float64)).Error
	},
	"row": func(db *gorm.DB) error { return db.Raw("SELECT max(id) FROM effects").Row().Scan(new(int)) },
	"one session twice": func(db *gorm.DB) error {
		named := db.Model(&effect{}).Where("name <> ?", "")
		return errors.Join(named.Count(new(int64)).Error, named.Find(&[]effect{}).Error)
	},
	"transaction": func(db *gorm.DB) error {
		return db.Transaction(func(tx *gorm.DB) error { return tx.First(&effect{}).Error }, &sql.TxOptions{ReadOnly: db.Name() == "postgres"})
	},
}

// CONTRACT X-6
func TestWriteGuardLetsOrdinaryReadsPass(t *testing.T) {
	t.Parallel()
	booking(t, func(t *testing.T, db *gorm.DB, _ func() int) {
		_, ctx := begin(t, newStore(t, db), command(core.Rollback))
		for name, read := range ordinaryReads {
			require.NoError(t, read(db.WithContext(ctx)), name)
		}
	})
}

// CONTRACT X-6
func TestWriteGuardCostsNoRoundTrip(t *testing.T) {
	url := migratedURL(t)
	db := openPostgres(t, url, 4)
	_, ctx := begin(t, newStore(t, db), command(core.Rollback))
	read := pgtest.Statements(t, url)
	require.NoError(t, db.WithContext(ctx).Model(&effect{}).Count(new(int64)).Error)
	requireStatements(t, read(), "SELECT count(*)")
}

// A plugin of the app's may add to a read after the guard has let it in: what is sent is what counts, and all of it is
// sent.
//
// CONTRACT X-6
func TestWriteGuardSeesWhatOtherPluginsAdd(t *testing.T) {
	t.Parallel()
	booking(t, func(t *testing.T, db *gorm.DB, booked func() int) {
		_, ctx := begin(t, newStore(t, db), command(core.Rollback))
		add := "name = 'of another tenant'"
		require.NoError(t, db.Callback().Query().Before("gorm:query").Register("app:tenant", func(db *gorm.DB) { db.Where(add) }))
		var there []effect
		require.NoError(t, db.WithContext(ctx).Find(&there).Error)
		require.Empty(t, there)
		add = "book(1) > 0"
		require.ErrorIs(t, db.WithContext(ctx).Find(&there).Error, gormstore.ErrOutsideTransaction)
		add = "1 = 1"
		require.Zero(t, booked())
	})
}

// CONTRACT
func TestWriteGuardInResume(t *testing.T) {
	t.Parallel()
	booking(t, func(t *testing.T, db *gorm.DB, booked func() int) {
		a := newStepApp(t, newStore(t, db))
		writes := map[string]func(db *gorm.DB) error{"Create": stock}
		maps.Copy(writes, bookings)
		maps.Copy(writes, outsideWrites)
		refused := func(ctx context.Context, where string) {
			for name, write := range writes {
				err := write(db.WithContext(ctx))
				require.ErrorIs(t, err, gormstore.ErrOutsideTransaction, "%s: %s", where, name)
			}
			for name, read := range ordinaryReads {
				require.NoError(t, read(db.WithContext(ctx)), "%s: %s", where, name)
			}
		}
		answer := a.post(func(ctx context.Context) error {
			refused(ctx, "before the step")
			require.ErrorContains(t, stock(db.WithContext(ctx)), "gormstore.Step", "the fix is named")
			require.NoError(t, stock(db.WithContext(gormstore.Outside(ctx))))
			return gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error {
				refused(ctx, "in the step, with the handler's context")
				refused(tx.Statement.Context, "in the step, past its transaction")
				require.NoError(t, stock(tx.WithContext(ctx)))
				return stock(tx)
			})
		})
		require.Equal(t, http.StatusCreated, answer.Code, answer.Body)
		require.Equal(t, 4, countEffects(t, db), "one was there; Outside, and two in the step")
		if db.Name() == "sqlite" {
			require.Zero(t, booked())
		}
	})
}

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
