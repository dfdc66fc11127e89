package gormstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// failWith fails with a given SQLSTATE.
const failWith = "SELECT fail_at(1, 1, $1)"

// A handler that answers 404 to any error of First gives the client no verdict while the database is in distress. An error
// that says something about the command is its own.
//
// CONTRACT X-0
func TestErrorThatIsNotOfTheCommandIsNoAnswer(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		db := way.fresh("", false)(t)(t)
		execute(t, db, failAt)
		st := newStore(t, db)
		for end, finish := range answers {
			for _, state := range []string{
				"0A000", "53100", "53200", "53300", "53400", "58030", "XX000", "25006", "26000", "42501", "42P01", "08006", "54000",
			} {
				c := command(core.Rollback)
				tx, ctx := beginRow(t, st, c)
				require.Error(t, gormstore.Tx(ctx).Exec(failWith, state).Error)
				require.Error(t, gormstore.Tx(ctx).First(&effect{}).Error, "aborted")
				err := finish(t, tx)
				require.ErrorIs(t, err, core.ErrRetryable, "%s, %s", end, state)
				require.ErrorContains(t, err, state, "the event says why")
				requireFree(t, st, c)
			}
		}
		for _, state := range []string{"22P02", "22003", "23505", "23514", "P0001", "P0002"} {
			c := command(core.Rollback)
			tx, ctx := begin(t, st, c)
			require.Error(t, gormstore.Tx(ctx).Exec(failWith, state).Error)
			require.Error(t, gormstore.Tx(ctx).Exec(failWith, "53100").Error, "aborted: it never came that far")
			require.NoError(t, seal(t.Context(), tx, refused(), true), state)
			requireCompleted(t, st, c, refused())

			tx, ctx = begin(t, st, command(core.Rollback))
			require.Error(t, gormstore.Tx(ctx).Exec(failWith, state).Error)
			err := seal(t.Context(), tx, paid(), false)
			require.ErrorIs(t, err, core.ErrAborted)
			require.NotErrorIs(t, err, core.ErrRetryable)
			require.ErrorContains(t, err, state, "the event says why")
		}
		t.Run("undone", func(t *testing.T) { // then the transaction is not aborted at the end
			c := command(core.Rollback)
			tx, ctx := begin(t, st, c)
			require.Error(t, gormstore.Tx(ctx).Transaction(func(tx *gorm.DB) error { return tx.Exec(failWith, "53100").Error }))
			require.NoError(t, seal(t.Context(), tx, refused(), true))
			requireCompleted(t, st, c, refused())
		})
		require.Zero(t, countEffects(t, db))
	})
}

// A rolling ALTER TABLE makes the cached plan of SELECT * fail once on each connection. The client is told to repeat, not
// that there is no such order.
//
// CONTRACT X-0, P-1
func TestCachedPlanIsNoAnswer(t *testing.T) {
	t.Parallel()
	db := newPostgres(t, 2)
	require.NoError(t, db.Create(&effect{Name: "order"}).Error)
	events := &told{}
	module := try(core.New(core.Config{
		Store: newStore(t, db), Policy: core.Policy{Recovery: core.Rollback}, Observer: events,
	})).ok(t)
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var row map[string]any
		if gormstore.Tx(r.Context()).Raw("SELECT * FROM effects LIMIT 1").Scan(&row).Error != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	for _, key := range []string{"a", "b", "c", "d"} { // the plan is cached on all connections
		require.Equal(t, http.StatusCreated, serve(t, module, key, pay).Code)
	}
	require.NoError(t, db.Exec("ALTER TABLE effects ADD COLUMN note text").Error)
	answer := serve(t, module, "while-it-rolls", pay)
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Contains(t, answer.Body.String(), "rolled_back")
	require.NotEmpty(t, answer.Header().Get("Retry-After"))
	require.ErrorContains(t, events.last(core.EventRolledBack).Err, "0A000")
	eventually(t, "a repeat finds the order", func() bool {
		return serve(t, module, "while-it-rolls", pay).Code == http.StatusCreated
	})
}

// A connection that breaks under a handler is no 404 either.
//
// CONTRACT X-0
func TestBrokenConnectionIsNoAnswer(t *testing.T) {
	onPostgres(t, func(t *testing.T, db *gorm.DB) {
		store := newStore(t, db)
		c := command(core.Rollback)
		tx, ctx := begin(t, store, c)
		budget, cancel := context.WithCancel(ctx)
		handle, _ := gormstore.SQLTx(ctx)
		done := make(chan error)
		go func() {
			_, err := handle.ExecContext(budget, "SELECT pg_sleep(60)")
			done <- err
		}()
		sessions(t, db, 1, "wait_event = 'PgSleep'")
		cancel() // pgx closes the connection
		require.Error(t, <-done)
		require.ErrorIs(t, seal(t.Context(), tx, refused(), true), core.ErrRetryable)
		requireFree(t, store, c)
	})
}

// Work that a handler tries in a savepoint is optional: a row that is locked, or a budget of milliseconds, does not count once it
// is undone. A conflict does.
//
// CONTRACT
func TestOptionalWorkInASavepoint(t *testing.T) {
	onPostgres(t, func(t *testing.T, db *gorm.DB) {
		execute(t, db, failAt)
		require.NoError(t, db.Create(&effect{Name: "locked"}).Error)
		locker := opened(t, db)
		require.NoError(t, locker.Exec("SELECT 1 FROM effects WHERE name = 'locked' FOR UPDATE").Error)
		optional := map[string]work{
			"NOWAIT": func(tx *gorm.DB) error {
				return tx.Exec("SELECT 1 FROM effects WHERE name = 'locked' FOR UPDATE NOWAIT").Error
			},
			"budget": func(tx *gorm.DB) error {
				require.NoError(t, tx.Exec("SET LOCAL statement_timeout = 50").Error)
				return tx.Exec("SELECT 1 FROM effects WHERE name = 'locked' FOR UPDATE").Error
			},
			"row by row": func(tx *gorm.DB) error {
				return tx.Raw("SELECT fail_at(n, 3, '55P03') FROM generate_series(1, 3) n").Scan(&[]int{}).Error
			},
			"row": func(tx *gorm.DB) error {
				return tx.Raw("SELECT fail_at(1, 1, '57014')").Row().Scan(new(int))
			},
		}
		rows := countEffects(t, db)
		for name, try := range optional {
			for way, run := range attempts {
				require.NoError(t, run(t, db, func(tx *gorm.DB) error {
					require.Error(t, tx.Transaction(try))
					require.NoError(t, tx.Exec("SAVEPOINT mine").Error)
					require.Error(t, try(tx))
					require.NoError(t, tx.Exec("ROLLBACK TO mine").Error)
					return stock(tx)
				}), "%s: %s", way, name)
				rows++
				require.Equal(t, rows, countEffects(t, db))

				require.ErrorIs(t, run(t, db, func(tx *gorm.DB) error {
					require.NoError(t, stock(tx))
					require.Error(t, try(tx))
					return nil
				}), core.ErrRetryable, "%s: %s, not undone", way, name)
				require.ErrorIs(t, run(t, db, func(tx *gorm.DB) error {
					require.Error(t, tx.Transaction(try))
					require.Error(t, tx.Transaction(func(tx *gorm.DB) error { return tx.Exec(failWith, "40001").Error }))
					require.Error(t, tx.Transaction(try))
					return stock(tx)
				}), core.ErrRetryable, "%s: %s, and a conflict", way, name)
			}
		}
		t.Run("message", func(t *testing.T) { // the library goes back to its savepoint
			box := newInbox(t, db, stockInbox)
			require.NoError(t, attempts["attempt"](t, db, func(tx *gorm.DB) error {
				require.Error(t, box.Process(tx.Statement.Context, message(), optional["NOWAIT"]))
				return stock(tx)
			}))
		})
		require.Equal(t, rows+1, countEffects(t, db))
	})
}

// On SQLite a failed statement aborts nothing: a success stands, and so does a refusal that answers a constraint. Another
// error, such as that of a table that is missing, is no refusal.
//
// CONTRACT X-0
func TestErrorThatIsNotOfTheCommandOnSQLite(t *testing.T) {
	onStores(t, []string{"sqlite"}, func(t *testing.T, db *gorm.DB, store *gormstore.Store) {
		require.NoError(t, db.AutoMigrate(&unique{}))
		require.NoError(t, db.Create(&unique{Name: "taken"}).Error)
		require.NoError(t, db.Exec(`CREATE TRIGGER poor BEFORE INSERT ON uniques WHEN NEW.name = 'poor'
			BEGIN SELECT RAISE(ABORT, 'insufficient funds'); END`).Error)
		for statement, ofCommand := range map[string]bool{
			"INSERT INTO uniques (name) VALUES ('taken')":          true,
			"INSERT INTO uniques (name) VALUES (NULL)":             true,
			"INSERT INTO uniques (name) VALUES ('poor')":           true,
			"INSERT INTO uniques (id, name) VALUES ('x', 'other')": true, // datatype mismatch
			"SELECT 1 FROM missing":                                false,
			"INSERT INTO uniques (missing) VALUES (1)":             false,
		} {
			c := command(core.Rollback)
			tx, ctx := begin(t, store, c)
			require.Error(t, gormstore.Tx(ctx).Exec(statement).Error, statement)
			err := seal(t.Context(), tx, refused(), true)
			if ofCommand {
				require.NoError(t, err, statement)
				requireCompleted(t, store, c, refused())
			} else {
				require.ErrorIs(t, err, core.ErrRetryable, statement)
				requireNothing(t, store, c)
			}

			c = command(core.Rollback)
			tx, ctx = begin(t, store, c)
			require.Error(t, gormstore.Tx(ctx).Transaction(func(tx *gorm.DB) error { return tx.Exec(statement).Error }))
			require.NoError(t, seal(t.Context(), tx, refused(), true), "%s, undone", statement)

			c = command(core.Rollback)
			tx, ctx = begin(t, store, c)
			require.Error(t, gormstore.Tx(ctx).Exec(statement).Error)
			require.NoError(t, seal(t.Context(), tx, paid(), false), "%s, and a success", statement)
			requireCompleted(t, store, c, paid())
		}

		c := command(core.Rollback)
		tx, ctx := begin(t, store, c)
		budget, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		const forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
		require.Error(t, gormstore.Tx(ctx).WithContext(budget).Raw(forever).Scan(new(int)).Error)
		err := seal(t.Context(), tx, refused(), true)
		require.True(t, errors.Is(err, core.ErrRetryable) || errors.Is(err, core.ErrAborted), "%v", err)
		requireNothing(t, store, c)
	})
}

// A 4xx that answers a failed statement is an event with the class of its error, also on SQLite, where the transaction goes
// on. What a ROLLBACK TO has undone was tried on purpose. The error's text, which quotes values, is not in it.
//
// CONTRACT X-0
func TestStatementFailedIsToldOf(t *testing.T) {
	class := map[string]string{"postgres": "SQLSTATE class 23", "sqlite": "SQLite error 19"}
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.Create(&effect{ID: 7, Name: "secret"}).Error)
		events := &told{}
		module := try(core.New(core.Config{Store: newStore(t, db), Policy: core.Policy{Recovery: core.Rollback}, Observer: events})).ok(t)
		again := func(tx *gorm.DB) error { return tx.Create(&effect{ID: 7, Name: "secret"}).Error }
		for name, c := range map[string]struct {
			status int
			work   func(tx *gorm.DB) error
			told   bool
		}{
			"refused":              {409, again, true},
			"refused, freed":       {403, again, true},
			"undone by savepoint":  {404, func(tx *gorm.DB) error { return tx.Transaction(again) }, false},
			"in front of it":       {404, func(tx *gorm.DB) error { return errors.Join(again(tx), tx.Transaction(again)) }, true},
			"stands behind it":     {404, func(tx *gorm.DB) error { return errors.Join(tx.Transaction(again), again(tx)) }, true},
			"answered with a 5xx":  {500, again, false},
			"a success behind it":  {201, func(tx *gorm.DB) error { return tx.Transaction(again) }, false},
			"a row is not there":   {404, func(tx *gorm.DB) error { return tx.First(&effect{ID: 8}).Error }, false},
			"refused for a reason": {402, func(*gorm.DB) error { return errors.New("declined") }, false},
		} {
			t.Run(name, func(t *testing.T) {
				events.mu.Lock()
				events.events = nil
				events.mu.Unlock()
				w := serve(t, module, rand.Text(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					require.Error(t, c.work(gormstore.Tx(r.Context())))
					w.WriteHeader(c.status)
				}))
				require.Equal(t, c.status, w.Code, w.Body)
				e := events.last(core.EventStatementFailed)
				require.Equal(t, c.told, e.Kind != "")
				if c.told {
					require.Equal(t, c.status, e.Status)
					require.ErrorContains(t, e.Err, class[db.Name()])
					require.NotContains(t, e.Err.Error(), "secret")
					require.NotContains(t, e.Err.Error(), "duplicate")
				}
			})
		}
	})
}

// The first 4xx of a route that answers a failed statement is a warning, so that somebody sees it: a refusal by a constraint,
// or a fault that is replayed for three days. Others of this process are debug messages.
//
// CONTRACT X-0
func TestStatementFailedIsWarnedOfOnce(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.Create(&effect{ID: 7}).Error)
		var log bytes.Buffer
		cfg := core.Config{Store: newStore(t, db), Policy: core.Policy{Recovery: core.Rollback}}
		cfg.Observer = core.LogObserver(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		module := try(core.New(cfg)).ok(t)
		for range 3 {
			w := serve(t, module, rand.Text(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.Error(t, gormstore.Tx(r.Context()).Create(&effect{ID: 7}).Error)
				w.WriteHeader(http.StatusBadRequest)
			}))
			require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
		}
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		require.Contains(t, log.String(), "idem: statement_failed")
	})
}
