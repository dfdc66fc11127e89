package gormstore_test

import (
	"context"
	"errors"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// outsideWrites are the ways in which a handler may write past its attempt's transaction, through a *gorm.DB that
// carries its context.
var outsideWrites = map[string]func(db *gorm.DB) error{
	"create": func(db *gorm.DB) error { return db.Create(&effect{Name: "outside"}).Error },
	"create in batches": func(db *gorm.DB) error {
		return db.CreateInBatches([]effect{{Name: "outside"}, {Name: "outside"}}, 1).Error
	},
	"save":   func(db *gorm.DB) error { return db.Save(&effect{ID: 1, Name: "outside"}).Error },
	"update": func(db *gorm.DB) error { return db.Model(&effect{ID: 1}).Update("name", "outside").Error },
	"delete": func(db *gorm.DB) error { return db.Delete(&effect{ID: 1}).Error },
	"exec":   func(db *gorm.DB) error { return db.Exec("UPDATE effects SET name = 'outside'").Error },
	"raw": func(db *gorm.DB) error {
		var id uint
		return db.Raw("INSERT INTO effects (name) VALUES ('outside') RETURNING id").Scan(&id).Error
	},
	"rows": func(db *gorm.DB) error {
		return closed(db.Raw("WITH d AS (SELECT 1) DELETE FROM effects RETURNING id").Rows())
	},
	"transaction": func(db *gorm.DB) error {
		return db.Transaction(func(tx *gorm.DB) error { return tx.Create(&effect{Name: "outside"}).Error })
	},
	"new session": func(db *gorm.DB) error {
		return db.Session(&gorm.Session{NewDB: true, Context: db.Statement.Context}).Create(&effect{Name: "outside"}).Error
	},
}

// CONTRACT X-6
func TestWriteGuardRefusesWritesOutside(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, store *gormstore.Store) {
		require.NoError(t, db.Create(&effect{ID: 1, Name: "before"}).Error)
		for name, write := range outsideWrites {
			t.Run(name, func(t *testing.T) {
				tx, ctx := begin(t, store, command(core.Rollback))
				err := write(db.WithContext(ctx))
				require.ErrorIs(t, err, gormstore.ErrOutsideTransaction)
				require.ErrorContains(t, err, "gormstore.Tx(ctx)", "the fix is named")
				require.NoError(t, tx.Rollback())

				var there []effect
				require.NoError(t, db.Find(&there).Error)
				require.Equal(t, []effect{{ID: 1, Name: "before"}}, there, "refused before it reached the database")
			})
		}
	})
}

// A refused write is in GORM's log, once: an app may answer 500 and log nothing.
func TestWriteGuardLogs(t *testing.T) {
	for _, name := range []string{"create", "update", "delete", "exec"} {
		t.Run(name, func(t *testing.T) {
			db := freshSQLite(t)(t)
			var logged strings.Builder
			db.Logger = logger.New(log.New(&logged, "", 0), logger.Config{LogLevel: logger.Error})
			store := newStore(t, db)
			tx, ctx := begin(t, store, command(core.Rollback))
			require.Error(t, outsideWrites[name](db.WithContext(ctx)))
			require.NoError(t, tx.Rollback())
			require.Equal(t, 1, strings.Count(logged.String(), "Write through gormstore.Tx(ctx)"), logged.String())
		})
	}
}

// CONTRACT X-6
func TestWriteGuardLetsPass(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, store *gormstore.Store) {
		tx, ctx := begin(t, store, command(core.Rollback))
		inside := gormstore.Tx(ctx)
		require.NoError(t, inside.Create(&effect{ID: 1, Name: "inside"}).Error)
		require.NoError(t, inside.Transaction(func(nested *gorm.DB) error {
			return nested.Model(&effect{ID: 1}).Update("name", "nested").Error
		}))
		require.NoError(t, inside.Exec("UPDATE effects SET name = 'again'").Error)

		var n int64
		outside := db.WithContext(ctx) // reads are welcome
		require.NoError(t, outside.Model(&effect{}).Count(&n).Error)
		require.NoError(t, outside.Raw("SELECT count(*) FROM effects WHERE name <> 'x'").Scan(&n).Error)
		require.Zero(t, n, "another connection sees nothing of the attempt")
		if db.Name() == "postgres" { // SQLite has one writer, and this attempt is it
			marked := db.WithContext(gormstore.Outside(ctx))
			require.NoError(t, marked.Create(&effect{ID: 2, Name: "marked as outside"}).Error)
		}
		require.NoError(t, tx.Rollback())

		require.NoError(t, db.Model(&effect{}).Where("id = 1").Count(&n).Error)
		require.Zero(t, n, "what was written inside is undone")
		if db.Name() == "postgres" {
			require.NoError(t, db.Model(&effect{}).Where("id = 2").Count(&n).Error)
			require.EqualValues(t, 1, n, "what was marked stays")
		}
	})
}

// Another *gorm.DB of the app has no guard until it gets one.
//
// CONTRACT X-6
func TestWriteGuardOnAnotherDB(t *testing.T) {
	t.Parallel()
	open := freshPostgres("", false)(t)
	store, other := newStore(t, open(t)), open(t)
	require.NoError(t, other.Use(gormstore.WriteGuard()))
	_, ctx := begin(t, store, command(core.Rollback))
	require.ErrorIs(t, other.WithContext(ctx).Create(&effect{Name: "outside"}).Error, gormstore.ErrOutsideTransaction)
}

// CONTRACT X-6
func TestTxOutsideAnAttempt(t *testing.T) {
	db := freshSQLite(t)(t)
	newStore(t, db)
	func() {
		defer func() { require.Contains(t, recover(), "Pass the request's context", "the fix is named") }()
		gormstore.Tx(t.Context())
	}()
	_, ok := gormstore.TxFrom(t.Context())
	require.False(t, ok)
	_, ok = gormstore.SQLTx(t.Context())
	require.False(t, ok)
}

// A handler that mistakes the plain database for its transaction gets an error at once. It does not wait for a
// connection, not even where all of a small pool are taken by attempts like its own.
//
// CONTRACT X-6
func TestWriteGuardUnderLoad(t *testing.T) {
	t.Parallel()
	open := freshPostgres("", false)(t)
	db := open(t)
	pool := try(db.DB()).ok(t)
	pool.SetMaxOpenConns(10)
	idem := try(core.New(core.Config{
		Store: newStore(t, db), ClaimTimeout: 20 * time.Second,
		Policy: core.Policy{Recovery: core.Rollback, Deadline: 30 * time.Second},
	})).ok(t)

	for _, w := range atOnce(100, func(i int) *httptest.ResponseRecorder {
		return serve(t, idem, "key-"+strconv.Itoa(i), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// With a transaction of GORM's own, which would take a second connection.
			err := db.WithContext(r.Context()).Transaction(func(tx *gorm.DB) error {
				return tx.Create(&effect{Name: "outside"}).Error
			})
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
	}) { // where attempts hold all connections and wait for one more, they end with their deadlines
		require.Equal(t, http.StatusInternalServerError, w.Code)
	}
	require.Zero(t, countEffects(t, db))
}

// CONTRACT X-6
func TestWriteGuardInSessions(t *testing.T) {
	t.Parallel()
	open := freshPostgres("", false)(t)
	db := open(t)
	require.NoError(t, db.Create(&effect{ID: 1, Name: "before"}).Error)
	store := newStore(t, db)
	_, ctx := begin(t, store, command(core.Rollback))

	writes := maps.Clone(outsideWrites)
	writes["common table expression"] = func(db *gorm.DB) error {
		var ids []int
		return db.Raw("WITH made AS (INSERT INTO effects (name) VALUES ('outside') RETURNING id) SELECT id FROM made").Scan(&ids).Error
	}
	writes["select into"] = func(db *gorm.DB) error { return db.Exec("SELECT 1 AS one INTO another").Error }
	writes["block"] = func(db *gorm.DB) error { return db.Exec("DO $$ BEGIN DELETE FROM effects; END $$").Error }
	writes["first or create"] = func(db *gorm.DB) error {
		return db.FirstOrCreate(&effect{}, effect{Name: "outside"}).Error
	}
	writes["for update"] = func(db *gorm.DB) error { // the lock must be the attempt's
		return db.Raw("SELECT id FROM effects\n\tFOR NO KEY UPDATE SKIP LOCKED").Scan(&[]int{}).Error
	}
	reads := map[string]func(db *gorm.DB) error{
		"find": func(db *gorm.DB) error { return db.Find(&[]effect{}).Error },
		"raw": func(db *gorm.DB) error {
			return db.Raw("SELECT name AS updated_at FROM effects").Scan(&[]string{}).Error
		},
		"with": func(db *gorm.DB) error {
			return db.Raw("WITH e AS (SELECT id AS deleted FROM effects) SELECT deleted FROM e").Scan(&[]int{}).Error
		},
	}
	for name, db := range map[string]*gorm.DB{
		"prepared statements":     db.Session(&gorm.Session{PrepareStmt: true, Context: ctx}),
		"no default transactions": db.Session(&gorm.Session{SkipDefaultTransaction: true, Context: ctx}),
		"a derived context":       db.WithContext(context.WithValue(ctx, effect{}, 1)),
		"a detached context":      db.WithContext(context.WithoutCancel(ctx)),
	} {
		for way, write := range writes {
			require.ErrorIs(t, write(db), gormstore.ErrOutsideTransaction, "%s: %s", name, way)
		}
		for way, read := range reads {
			require.NoError(t, read(db), "%s: %s", name, way)
		}
	}
	var there []effect
	require.NoError(t, db.Find(&there).Error)
	require.Equal(t, []effect{{ID: 1, Name: "before"}}, there)
}

// GORM would take the statements of such a session to the pool, reads as well: a handler would not see its own rows.
//
// CONTRACT X-6
func TestTxPreparesNoStatements(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		tx, ctx := beginRow(t, newStore(t, db), command(core.Rollback))
		prepared := gormstore.Tx(ctx).Session(&gorm.Session{PrepareStmt: true})
		var n int64
		for name, err := range map[string]error{
			"create":      prepared.Create(&effect{Name: "prepared"}).Error,
			"exec":        prepared.Exec("DELETE FROM effects").Error,
			"count":       prepared.Model(&effect{}).Count(&n).Error,
			"find":        prepared.Find(&[]effect{}).Error,
			"raw":         prepared.Raw("SELECT count(*) FROM effects").Scan(&n).Error,
			"transaction": prepared.Transaction(func(tx *gorm.DB) error { return tx.Find(&[]effect{}).Error }),
		} {
			require.ErrorContains(t, err, "cannot use prepared statements", name)
		}
		require.NoError(t, gormstore.Tx(ctx).Model(&effect{}).Count(&n).Error)
		require.EqualValues(t, 1, n)
		require.NoError(t, seal(t.Context(), tx, paid(), false))
		require.Equal(t, 1, countEffects(t, db))
	})
}

// In unit tests there is no attempt, and a database of the test stands in for its transaction.
//
// CONTRACT X-6
func TestWithTx(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		newStore(t, db)
		for name, session := range map[string]gorm.Session{"": {}, "prepared statements": {PrepareStmt: true}} {
			before := countEffects(t, db)
			rolledBack := db.Session(&session).Begin()
			ctx := gormstore.WithTx(t.Context(), rolledBack)
			require.NoError(t, addEffect(ctx), name)
			require.NoError(t, gormstore.Tx(ctx).Transaction(func(tx *gorm.DB) error {
				return tx.Create(&effect{Name: "nested"}).Error
			}), name)
			handle, ok := gormstore.SQLTx(ctx)
			require.True(t, ok)
			_, err := handle.ExecContext(ctx, "INSERT INTO effects (name) VALUES ('by SQL')")
			require.NoError(t, err, name)
			require.ErrorIs(t, db.WithContext(ctx).Create(&effect{Name: "outside"}).Error, gormstore.ErrOutsideTransaction, name)
			require.NoError(t, rolledBack.Rollback().Error)
			require.Equal(t, before, countEffects(t, db), name)

			ctx = gormstore.WithTx(t.Context(), db.Session(&session)) // a database for this test alone
			require.NoError(t, addEffect(ctx), name)
			require.NoError(t, gormstore.Tx(ctx).Transaction(func(tx *gorm.DB) error {
				return tx.Create(&effect{Name: "in a transaction"}).Error
			}), name)
			require.Equal(t, before+2, countEffects(t, db), name)
		}
	})
}

// A write without the context is one that nobody can see. It waits for one of the connections that attempts leave free,
// and not for itself.
//
// CONTRACT X-6
func TestWritesWithoutContextEnd(t *testing.T) {
	t.Parallel()
	open := freshPostgres("", false)(t)
	db := open(t)
	pool := try(db.DB()).ok(t)
	pool.SetMaxOpenConns(10)
	store := newStore(t, db)
	ctx := within(t, 30*time.Second)
	for _, err := range atOnce(100, func(int) error {
		tx, _, err := store.Begin(ctx, command(core.Rollback))
		if err != nil {
			return err
		}
		attempt := tx.Bind(ctx, nil)
		return errors.Join(
			addEffect(attempt),
			db.Create(&effect{Name: "invisible"}).Error,
			db.Transaction(func(tx *gorm.DB) error { return tx.Create(&effect{Name: "invisible"}).Error }),
			db.WithContext(gormstore.Outside(attempt)).Create(&effect{Name: "meant to stay"}).Error,
			tx.Rollback())
	}) {
		require.NoError(t, err)
	}
	require.Equal(t, 300, countEffects(t, db))
}
