package gormstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// lines are the rows of a statement, by whatever way they are read.
type lines interface {
	Next() bool
	Scan(into ...any) error
	Err() error
}

const threeLines = "SELECT id FROM effects ORDER BY id"

// linesBy are the ways in which a handler reads rows. done closes them.
var linesBy = map[string]func(ctx context.Context) (rows lines, done func()){
	"database/sql": func(ctx context.Context) (lines, func()) {
		tx, _ := gormstore.SQLTx(ctx)
		rows, err := tx.QueryContext(ctx, threeLines)
		return rows, closing(rows, err)
	},
	"GORM": func(ctx context.Context) (lines, func()) {
		rows, err := gormstore.Tx(ctx).Model(&effect{}).Select("id").Order("id").Rows()
		return rows, closing(rows, err)
	},
	"pgx": func(ctx context.Context) (lines, func()) {
		tx, _ := gormstore.PgxTx(ctx)
		rows, err := tx.Query(ctx, threeLines)
		if err != nil {
			panic(err)
		}
		return rows, rows.Close
	},
	"pgx, batch": func(ctx context.Context) (lines, func()) {
		tx, _ := gormstore.PgxTx(ctx)
		var batch pgx.Batch
		batch.Queue(threeLines)
		results := tx.SendBatch(ctx, &batch)
		rows, err := results.Query()
		if err != nil {
			panic(err)
		}
		return rows, func() { rows.Close(); _ = results.Close() }
	},
}

func closing(rows *sql.Rows, err error) func() {
	if err != nil {
		panic(err)
	}
	return func() { _ = rows.Close() }
}

// betweenRows are what closes rows in a Resume handler.
var betweenRows = map[string]func(ctx context.Context) error{
	"call": func(ctx context.Context) error {
		return core.CallDo(ctx, rand.Text(), func(context.Context, core.DerivedKey) error { return nil }, core.Dedup(time.Hour))
	},
	"step": func(ctx context.Context) error {
		return gormstore.StepDo(ctx, rand.Text(), func(*gorm.DB) error { return nil })
	},
	"checkpoint": core.Checkpoint,
}

// A handler reads rows, and a call, a step or a checkpoint comes in between. It closes the rows, which must not look like
// their end: one of three lines would be paid, and the success recorded.
//
// CONTRACT X-9
func TestRowsThatAreCutShort(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		for range 3 {
			require.NoError(t, db.Create(&effect{Name: "line"}).Error)
		}
		events := &told{}
		module := try(core.New(core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume}, Observer: events})).ok(t)
		// run serves a command of which one line is read, and then fn runs. The handler ignores every error.
		run := func(t *testing.T, status int, by string, fn func(ctx context.Context, rows lines, done func())) *httptest.ResponseRecorder {
			return serve(t, module, rand.Text(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				// Without anything to make durable, a checkpoint does nothing.
				require.NoError(t, gormstore.StepDo(r.Context(), "before", func(*gorm.DB) error { return nil }))
				rows, done := linesBy[by](r.Context())
				defer done()
				require.True(t, rows.Next())
				require.NoError(t, rows.Scan(new(int)))
				fn(r.Context(), rows, done)
				w.WriteHeader(status)
			}))
		}
		for by := range linesBy {
			if db.Name() == "sqlite" && by != "database/sql" && by != "GORM" {
				continue
			}
			for between, come := range betweenRows {
				t.Run(by+", "+between, func(t *testing.T) {
					requireNotRecorded(t, run(t, 201, by, func(ctx context.Context, rows lines, _ func()) {
						require.NoError(t, come(ctx))
						require.False(t, rows.Next())
						require.ErrorContains(t, rows.Err(), "these results were closed")
						require.Error(t, rows.Scan(new(int)))
						require.ErrorIs(t, come(ctx), core.ErrSegmentLost, "with a part of the lines nothing begins")
					}))
					requireNotRecorded(t, run(t, 404, by, func(ctx context.Context, rows lines, _ func()) {
						require.NoError(t, come(ctx))
						require.False(t, rows.Next())
					}))
					run(t, 201, by, func(ctx context.Context, rows lines, _ func()) {
						require.NoError(t, come(ctx))
						require.Error(t, rows.Scan(new(int)), "the line of before")
					})

					requireRecorded(t, run(t, 201, by, func(ctx context.Context, _ lines, _ func()) {
						require.NoError(t, come(ctx))
					})) // nobody has looked at them again
					requireRecorded(t, run(t, 201, by, func(ctx context.Context, rows lines, done func()) {
						done()
						require.NoError(t, come(ctx))
						require.False(t, rows.Next())
						require.NoError(t, rows.Err(), "the handler has closed them")
					}))
					requireRecorded(t, run(t, 201, by, func(ctx context.Context, rows lines, _ func()) {
						for rows.Next() {
							require.NoError(t, rows.Scan(new(int)))
						}
						require.NoError(t, come(ctx))
						require.False(t, rows.Next())
						require.NoError(t, rows.Err(), "they were read to their end")
					}))
				})
			}
		}
		require.ErrorContains(t, events.last(core.EventRolledBack).Err, "these results were closed")
	})
}

// Another statement closes rows, too. It does not wait for them until the deadline.
//
// CONTRACT X-9
func TestRowsBesideAnotherStatement(t *testing.T) {
	db, st := parallelStore(t)
	require.NoError(t, db.Create(&[]effect{{Name: "line"}, {Name: "line"}}).Error)
	module := newModule(t, st, core.Policy{Recovery: core.Rollback})
	for _, by := range []string{"database/sql", "GORM"} {
		for _, readOn := range []bool{true, false} {
			answer := serve(t, module, rand.Text(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rows, done := linesBy[by](r.Context())
				defer done()
				require.True(t, rows.Next())
				require.NoError(t, gormstore.Tx(r.Context()).Exec("UPDATE effects SET name = 'paid'").Error)
				if readOn {
					require.False(t, rows.Next())
					require.ErrorContains(t, rows.Err(), "these results were closed")
				}
				w.WriteHeader(http.StatusCreated)
			}))
			if readOn {
				requireNotRecorded(t, answer)
			} else {
				requireRecorded(t, answer)
			}
		}
	}
}

// A row that was closed before it was scanned is not "no rows", which many handlers answer with 404.
//
// CONTRACT X-9
func TestRowThatIsCutShort(t *testing.T) {
	rowBy := map[string]func(ctx context.Context) interface{ Scan(into ...any) error }{
		"database/sql": func(ctx context.Context) interface{ Scan(into ...any) error } {
			tx, _ := gormstore.SQLTx(ctx)
			return tx.QueryRowContext(ctx, "SELECT 7")
		},
		"GORM": func(ctx context.Context) interface{ Scan(into ...any) error } {
			return gormstore.Tx(ctx).Raw("SELECT 7").Row()
		},
		"pgx": func(ctx context.Context) interface{ Scan(into ...any) error } {
			tx, _ := gormstore.PgxTx(ctx)
			return tx.QueryRow(ctx, "SELECT 7")
		},
	}
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		module := newModule(t, st, core.Policy{Recovery: core.Resume})
		for by, query := range rowBy {
			if db.Name() == "sqlite" && by == "pgx" {
				continue
			}
			for _, scan := range []bool{true, false} {
				answer := serve(t, module, rand.Text(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					row := query(r.Context())
					require.NoError(t, betweenRows["call"](r.Context()))
					if scan {
						require.ErrorContains(t, row.Scan(new(int)), "these results were closed", by)
					}
					w.WriteHeader(http.StatusCreated)
				}))
				if scan {
					requireNotRecorded(t, answer)
				} else {
					requireRecorded(t, answer)
				}
			}
		}
	})
}

func requireRecorded(t *testing.T, answer *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, http.StatusCreated, answer.Code, answer.Body)
	require.Equal(t, "created", answer.Header().Get("Idempotency-Result"))
}

// requireNotRecorded checks that a success did not leave, and that nothing is the recorded answer.
func requireNotRecorded(t *testing.T, answer *httptest.ResponseRecorder) {
	t.Helper()
	require.NotEqual(t, http.StatusCreated, answer.Code)
	require.NotEqual(t, "created", answer.Header().Get("Idempotency-Result"))
}
