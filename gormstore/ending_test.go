package gormstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
)

// ways are how a handler can send a statement in its transaction.
var ways = map[string]func(tx *gorm.DB, statement string) error{
	"Exec": func(tx *gorm.DB, statement string) error { return tx.Exec(statement).Error },
	"Raw":  func(tx *gorm.DB, statement string) error { return tx.Raw(statement).Scan(&[]string{}).Error },
	"Rows": func(tx *gorm.DB, statement string) error { return closed(tx.Raw(statement).Rows()) },
	"Row":  func(tx *gorm.DB, statement string) error { return tx.Raw(statement).Row().Scan(new(string)) },
	"Connection": func(tx *gorm.DB, statement string) error {
		return tx.Connection(func(tx *gorm.DB) error { return tx.Exec(statement).Error })
	},
	"Transaction": func(tx *gorm.DB, statement string) error {
		return tx.Transaction(func(tx *gorm.DB) error { return tx.Exec(statement).Error })
	},
	"SQLTx, Exec": func(tx *gorm.DB, statement string) error {
		return err2(sqlTx(tx).ExecContext(tx.Statement.Context, statement))
	},
	"SQLTx, Query": func(tx *gorm.DB, statement string) error {
		return closed(sqlTx(tx).QueryContext(tx.Statement.Context, statement))
	},
	"SQLTx, QueryRow": func(tx *gorm.DB, statement string) error {
		return sqlTx(tx).QueryRowContext(tx.Statement.Context, statement).Scan(new(string))
	},
	"PgxTx, Exec": func(tx *gorm.DB, statement string) error {
		handle, _ := gormstore.PgxTx(tx.Statement.Context)
		return err2(handle.Exec(tx.Statement.Context, statement))
	},
	"PgxTx, SendBatch": func(tx *gorm.DB, statement string) error {
		handle, _ := gormstore.PgxTx(tx.Statement.Context)
		return inBatch(tx.Statement.Context, handle, statement)
	},
}

// sqlTx is the attempt's transaction as plain SQL.
func sqlTx(tx *gorm.DB) gormstore.DBTX {
	handle, _ := gormstore.SQLTx(tx.Statement.Context)
	return handle
}

// closed is the error of a query, whose rows nobody reads.
func closed(rows *sql.Rows, err error) error {
	if err == nil {
		err = errors.Join(rows.Err(), rows.Close())
	}
	return err
}

// endings are statements that end or replace a transaction.
var endings = []string{
	"ROLLBACK", "COMMIT", "END", "ROLLBACK; INSERT INTO effects (name) VALUES ('alone')",
	"COMMIT; BEGIN; INSERT INTO effects (name) VALUES ('another'); COMMIT", "PREPARE TRANSACTION 'x'", "ABORT",
}

// work is a handler's work in the transaction that it gets.
type work func(tx *gorm.DB) error

// attempts are all that runs an app's statements in a transaction of the library. Each runs work once, and reports its
// error; nil means that the rows have committed.
var attempts = map[string]func(t *testing.T, db *gorm.DB, do work, first ...func()) error{
	"attempt": attempt,
	"step": func(t *testing.T, db *gorm.DB, do work, first ...func()) error {
		return inStep(t, db, do, false, first)
	},
	"step behind a call": func(t *testing.T, db *gorm.DB, do work, first ...func()) error {
		return inStep(t, db, do, true, first)
	},
	"message": func(t *testing.T, db *gorm.DB, do work, _ ...func()) error {
		return newInbox(t, db, stockInbox).Process(t.Context(), message(), do)
	},
}

func inStep(t *testing.T, db *gorm.DB, do work, behindCall bool, first []func()) error {
	st := newStore(t, db)
	prepare(t, st, first)
	segments, _ := resume(t, st, command(core.Resume))
	ctx := segments.Bind(t.Context(), nil)
	if behindCall {
		require.NoError(t, err2(segments.Seal(ctx, store.Seal{Start: &store.StepRecord{Name: "charge", Kind: store.ProviderStep}})))
	}
	err := segments.Step(ctx, func(ctx context.Context) error { return do(gormstore.Tx(ctx)) })
	if err != nil {
		return errors.Join(err, segments.Rollback())
	}
	_, err = segments.Seal(ctx, store.Seal{Steps: []store.StepRecord{{Name: "work", Kind: store.DatabaseStep}}})
	return err
}

// prepare does what comes first, once the store has found that the database will do.
func prepare(t *testing.T, store *gormstore.Store, first []func()) {
	t.Helper()
	if len(first) > 0 {
		require.NoError(t, store.Validate(t.Context()))
	}
	for _, do := range first {
		do()
	}
}

func attempt(t *testing.T, db *gorm.DB, do work, first ...func()) error {
	store := try(gormstore.New(db)).ok(t)
	defer func() { require.NoError(t, store.Close()) }()
	prepare(t, store, first)
	tx, ctx := begin(t, store, command(core.Rollback))
	if err := do(gormstore.Tx(ctx)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return seal(t.Context(), tx, paid(), false)
}

// A handler that tries to end its transaction gets an error, and nothing has been sent: the transaction goes on.
//
// CONTRACT X-8
func TestHandlersCannotEndTheirTransaction(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		for name, run := range attempts {
			t.Run(name, func(t *testing.T) {
				execute(t, db, "DELETE FROM effects")
				require.NoError(t, run(t, db, func(tx *gorm.DB) error {
					require.NoError(t, stock(tx))
					for way, send := range ways {
						for _, ending := range append(endings, "SAVEPOINT idem_rows_of_the_attempt") {
							if db.Name() == "sqlite" && (ending == "ABORT" || ending == "PREPARE TRANSACTION 'x'") {
								continue
							}
							require.Error(t, send(tx, ending), "%s: %s", way, ending)
						}
					}
					err := tx.Exec("COMMIT").Error
					require.ErrorContains(t, err, "a handler must not end", "the fix is named")
					require.ErrorContains(t, err, "Return an error or a status")
					return nil
				}))
				require.Equal(t, 1, countEffects(t, db))
				requireIdle(t, db)
			})
		}
	})
}

// CONTRACT X-8
func TestHandlersMayUseSavepoints(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		for name, run := range attempts {
			t.Run(name, func(t *testing.T) {
				execute(t, db, "DELETE FROM effects")
				require.NoError(t, run(t, db, func(tx *gorm.DB) error {
					undone := errors.New("undone")
					require.ErrorIs(t, tx.Transaction(func(tx *gorm.DB) error { return errors.Join(stock(tx), undone) }), undone)
					require.NoError(t, tx.Transaction(stock))
					require.NoError(t, tx.SavePoint("mine").Error)
					require.NoError(t, stock(tx))
					require.NoError(t, tx.RollbackTo("mine").Error)
					require.NoError(t, tx.Exec("SAVEPOINT again").Error)
					require.NoError(t, stock(tx))
					return tx.Exec("RELEASE SAVEPOINT again").Error
				}))
				require.Equal(t, 2, countEffects(t, db))
			})
		}
	})
}

// hidden is a statement that the driver sends instead of the one that the library has seen.
type hidden string

// RewriteQuery implements [pgx.QueryRewriter].
func (h hidden) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return string(h), nil, nil
}

// smuggle sends statements past the library, until one fails.
func smuggle(tx *gorm.DB, statements ...string) error {
	ctx := tx.Statement.Context
	for _, statement := range statements {
		var err error
		if tx.Name() == "postgres" {
			_, err = sqlTx(tx).ExecContext(ctx, "SELECT 1", hidden(statement))
		} else {
			err = sqlTx(tx).QueryRowContext(ctx, "SELECT run(?)", statement).Scan(new(sql.NullString))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// smuggled are what smuggle ends transactions with. On SQLite a ROLLBACK fails the statement that hides it, and what
// follows is refused, as after any rollback by SQLite itself: see TestSQLiteEndsTransactions.
func smuggled(db *gorm.DB) [][]string {
	committed := [][]string{{"COMMIT"}, {"COMMIT", "BEGIN"}}
	if db.Name() == "sqlite" {
		return committed
	}
	return append(committed, []string{"ROLLBACK"}, []string{"ROLLBACK", "BEGIN"})
}

// smuggling runs a test on databases where smuggle works.
func smuggling(t *testing.T, run func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) { run(t, freshPostgres("", false)(t)(t)) })
	t.Run("postgres wrapped", func(t *testing.T) { run(t, wrapped.fresh("", false)(t)(t)) })
	t.Run("sqlite", func(t *testing.T) {
		db := sqliteWith(t, "run", func(conn driver.ExecerContext, args []driver.Value) (driver.Value, error) {
			_, err := conn.ExecContext(t.Context(), args[0].(string), nil)
			return nil, err
		})
		run(t, db)
	})
}

// What ends the transaction all the same is noticed at its end: the operation is unknown, whatever the handler answers. It
// is neither run again nor in flight, an operator finds and settles it.
//
// CONTRACT X-8, M-4
func TestEndedAttemptIsUnknown(t *testing.T) {
	smuggling(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		events := &told{}
		module := try(core.New(core.Config{Store: st, Policy: core.Policy{Recovery: core.Rollback}, Observer: events})).ok(t)
		for _, ending := range smuggled(db) {
			for _, status := range []int{201, 402, 500, 0} {
				t.Run(fmt.Sprintf("%v, %d", ending, status), func(t *testing.T) {
					key, before := fmt.Sprint(strings.Join(ending, "-"), status), countEffects(t, db)
					if status == 402 { // a key that was free again before
						require.Equal(t, 403, serve(t, module, key, answering(403)).Code)
					}
					runs := 0
					send := func() *httptest.ResponseRecorder {
						return serve(t, module, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							runs++
							tx := gormstore.Tx(r.Context())
							require.NoError(t, stock(tx))
							require.NoError(t, smuggle(tx, ending...))
							require.NoError(t, stock(tx))
							if status != 0 {
								w.WriteHeader(status)
							}
						}))
					}
					first := send()
					require.Equal(t, http.StatusConflict, first.Code, first.Body)
					require.Contains(t, first.Body.String(), "outcome_unknown")
					require.Equal(t, core.EventUnknown, events.last(core.EventUnknown).Kind)
					require.ErrorIs(t, events.last(core.EventUnknown).Err, store.ErrEnded)
					require.Contains(t, send().Body.String(), "outcome_unknown")
					require.Equal(t, 1, runs)
					rows := countEffects(t, db) - before

					id := events.last(core.EventUnknown).Operation
					advance(t, db, deadline)
					unknown := try(st.List(t.Context(), store.Query{Unknown: true, Limit: 100})).ok(t)
					require.Len(t, unknown, 1)
					require.Equal(t, id, unknown[0].ID)
					requireEndedItself(t, module, unknown[0])
					settled, err := operations.New(module).Settle(t.Context(), id, core.Decision{Who: "o", Why: "w", Applied: true,
						Answer: &core.Answer{Status: http.StatusCreated}})
					require.NoError(t, err)
					require.Equal(t, store.Completed, settled.State())
					require.Equal(t, "reused", send().Header().Get("Idempotency-Result"))
					require.Equal(t, 1, runs)
					require.Equal(t, before+rows, countEffects(t, db))
					requireIdle(t, db)
				})
			}
		}
	})
}

// A handler that has rolled its own transaction back has freed its key: the end of the attempt claims it again, so that
// nobody runs the command a second time. That attempt is over, and its key was taken in time: it can be settled at once, and no
// refusal of old keys that came in the meantime is in the way. SQLite notices a hidden ROLLBACK before: see smuggled.
//
// CONTRACT, T-6
func TestRolledBackByItsHandlerIsClaimedAgain(t *testing.T) {
	onDatabases(t, []string{"postgres", "postgres wrapped"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		st := newStore(t, open(t))
		for i, timed := range []bool{false, true} {
			t.Run(fmt.Sprint("timed: ", timed), func(t *testing.T) {
				made := time.Now().Add(time.Duration(i) * time.Hour) // not what the case before has refused
				c := command(core.Rollback)
				c.Key = store.KeyTime{Made: made, Timed: timed}
				tx, ctx := begin(t, st, c)
				require.NoError(t, smuggle(gormstore.Tx(ctx), "ROLLBACK"))
				require.NoError(t, st.RefuseKeysBefore(t.Context(), c.Realm[:8], store.Refusal{Before: made.Add(time.Minute), Window: store.Window{}}))
				require.ErrorIs(t, seal(t.Context(), tx, paid(), false), store.ErrEnded)

				rec := requireState(t, st, c, store.Unknown)
				require.Equal(t, store.Unknown, rec.Stored)
				require.Equal(t, timed, rec.Timed)
				require.Equal(t, c.Hash, rec.Hash)
				_, err := st.Settle(t.Context(), store.Settlement{ID: c.ID, Fence: rec.Fence, Who: "o", Why: "w"})
				require.NoError(t, err, "neither its lease nor its deadline is waited for")
			})
		}
	})
}

// The process may end between the handler's COMMIT and the attempt's end: then everybody sees the state of the
// record as unknown.
//
// CONTRACT X-8, T-4
func TestCommittedByItsHandlerIsUnknown(t *testing.T) {
	smuggling(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		c := command(core.Rollback)
		tx, ctx := begin(t, st, c)
		require.NoError(t, smuggle(gormstore.Tx(ctx), "COMMIT"))
		if strings.HasSuffix(t.Name(), "wrapped") { // nobody sees it there before the end: the second line alone stands
			require.ErrorIs(t, seal(t.Context(), tx, paid(), false), store.ErrEnded)
			return
		}

		rec := try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t) // the attempt is still under way
		require.Equal(t, store.Unknown, rec.State())
		require.Len(t, try(st.List(t.Context(), store.Query{Unknown: true, Limit: 10})).ok(t), 1)
		settlement := store.Settlement{ID: c.ID, Fence: rec.Fence, Who: "o", Why: "w"}
		if db.Name() == "postgres" { // SQLite has one writer
			require.ErrorIs(t, err2(st.Settle(t.Context(), settlement)), store.ErrNotSettleable, "not before its deadline")
			advance(t, db, deadline)
			require.NoError(t, err2(st.Settle(t.Context(), settlement)))
		}
		require.ErrorIs(t, seal(t.Context(), tx, paid(), false), store.ErrEnded)
		rec = try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t)
		require.NotEqual(t, store.Completed, rec.State(), "nothing is recorded in another transaction")
	})
}

// An operation that becomes unknown under a key that was free has none of the steps of the operation before, nor has the next
// one.
//
// CONTRACT
func TestStepsEndWithTheirOperation(t *testing.T) {
	smuggling(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		c := command(core.Resume)
		freed := resumed(t, st, c, store.Seal{Steps: []store.StepRecord{{Name: "reserve", Kind: store.ProviderStep, Result: []byte("1")}}})
		require.NoError(t, st.End(t.Context(), freed, store.Ending{State: store.Free}))

		c.Recovery = core.Rollback
		tx, ctx := begin(t, st, again(c))
		require.NoError(t, smuggle(gormstore.Tx(ctx), "ROLLBACK"))
		require.ErrorIs(t, tx.Rollback(), store.ErrEnded)
		steps := try(st.Steps(t.Context(), c.ID)).ok(t)
		require.Empty(t, steps)

		advance(t, db, deadline)
		rec := try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t)
		require.NoError(t, err2(st.Settle(t.Context(), store.Settlement{ID: c.ID, Fence: rec.Fence, Who: "o", Why: "w"})))
		resumed(t, st, again(c), store.Seal{})
		steps = try(st.Steps(t.Context(), c.ID)).ok(t)
		require.Empty(t, steps)
	})
}

// CONTRACT
func TestEndedStepIsUnknown(t *testing.T) {
	smuggling(t, func(t *testing.T, db *gorm.DB) {
		store := newStore(t, db)
		for _, ending := range smuggled(db) {
			for name, failure := range map[string]error{"": nil, "and fails": errors.New("failed"), "and panics": errPanic} {
				t.Run(fmt.Sprint(ending, name), func(t *testing.T) {
					policy := core.Policy{Recovery: core.Resume, Deadline: 20 * time.Second}
					module := try(core.New(core.Config{Store: store, Policy: policy})).ok(t)
					runs, key := 0, rand.Text()
					send := func() *httptest.ResponseRecorder {
						defer func() {
							if p := recover(); p != nil {
								require.Equal(t, errPanic, p)
							}
						}()
						return serve(t, module, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							err := gormstore.StepDo(r.Context(), "work", func(tx *gorm.DB) error {
								runs++
								require.NoError(t, stock(tx))
								require.NoError(t, smuggle(tx, ending...))
								if errors.Is(failure, errPanic) {
									panic(errPanic)
								}
								return failure
							})
							if err != nil {
								w.WriteHeader(http.StatusInternalServerError)
							}
						}))
					}
					first := send()
					if !errors.Is(failure, errPanic) {
						require.Contains(t, first.Body.String(), "outcome_unknown")
					}
					require.Contains(t, send().Body.String(), "outcome_unknown")
					require.Equal(t, 1, runs)
					requireIdle(t, db)
				})
			}
		}
	})
}

var errPanic = errors.New("panic")

// A message whose handler has ended the inbox's transaction is neither acknowledged nor processed again: it belongs to
// the dead letters.
//
// CONTRACT
func TestEndedMessageIsUnknown(t *testing.T) {
	smuggling(t, func(t *testing.T, db *gorm.DB) {
		for _, ending := range smuggled(db) {
			for name, failure := range map[string]error{"": nil, "and fails": errors.New("failed")} {
				t.Run(fmt.Sprint(ending, name), func(t *testing.T) {
					box, m := newInbox(t, db, stockInbox), message()
					err := box.Process(t.Context(), m, func(tx *gorm.DB) error {
						require.NoError(t, stock(tx))
						require.NoError(t, smuggle(tx, ending...))
						return failure
					})
					require.ErrorIs(t, err, inbox.ErrUnknown)
					require.ErrorIs(t, box.Process(t.Context(), m, never(t)), inbox.ErrUnknown)
					requireIdle(t, db)
				})
			}
		}
	})
}

// answering is a handler with this answer.
func answering(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// told keeps the events of a module.
type told struct {
	mu     sync.Mutex
	events []core.Event
}

// Observe implements [core.Observer].
func (o *told) Observe(_ context.Context, e core.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

// last returns the last event of a kind; the zero Event where there was none.
func (o *told) last(kind core.EventKind) (last core.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e.Kind == kind {
			last = e
		}
	}
	return last
}

func (o *told) count(kind core.EventKind) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// A transaction that has failed is the attempt's own only if the library's savepoint is in it.
//
// CONTRACT X-8
func TestEndedAttemptThatFailsInAnotherTransaction(t *testing.T) {
	onPostgres(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		c := command(core.Rollback)
		tx, ctx := begin(t, st, c)
		require.NoError(t, smuggle(gormstore.Tx(ctx),
			"ROLLBACK", "BEGIN", "INSERT INTO effects (name) VALUES ('stays')", "COMMIT", "BEGIN"))
		require.Error(t, smuggle(gormstore.Tx(ctx), "SELECT 1/0"))
		require.ErrorIs(t, tx.Rollback(), store.ErrEnded)
		requireState(t, st, c, store.Unknown)
	})
}

// On SQLite, a record that is gone says that SQLite has rolled back only if a statement has failed. Here the handler has
// committed its rows, and the record is gone: a key that were free now would write the rows again.
//
// CONTRACT X-8
func TestEndedAttemptThatHasDeletedItsRecord(t *testing.T) {
	smuggling(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		for name, end := range map[string]func(tx store.Attempt) error{
			"commit":   func(tx store.Attempt) error { return seal(t.Context(), tx, paid(), false) },
			"refuse":   func(tx store.Attempt) error { return seal(t.Context(), tx, refused(), true) },
			"rollback": func(tx store.Attempt) error { return tx.Rollback() },
		} {
			t.Run(name, func(t *testing.T) {
				c := command(core.Rollback)
				tx, ctx := begin(t, st, c)
				before := countEffects(t, db)
				handler := gormstore.Tx(ctx)
				require.NoError(t, addEffect(ctx))
				const leave = "DELETE FROM idempotency_record; COMMIT"
				if db.Name() == "sqlite" { // by Exec: the library sees that no statement has failed
					require.NoError(t, handler.Exec("SELECT run(?)", leave).Error)
				} else {
					require.NoError(t, smuggle(handler, "DELETE FROM idempotency_record", "COMMIT"))
				}
				require.ErrorIs(t, end(tx), store.ErrEnded)
				require.Equal(t, before+1, countEffects(t, db))
				requireState(t, st, c, store.Unknown)
			})
		}
	})
}

// Behind a call the record is there, and a handler that has committed its segment itself may have committed rows: nobody goes on
// with the operation, however long its lease is over.
//
// CONTRACT
func TestEndedSegmentIsUnknown(t *testing.T) {
	smuggling(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		if db.Name() == "postgres" { // and somebody leaves this behind
			require.NoError(t, st.Validate(t.Context()))
			onAll(t, db, db.Statement.ConnPool.(*sql.DB).Stats().MaxOpenConnections, "SET synchronous_commit = off")
		}
		c := command(core.Resume)
		segments, _ := resume(t, st, c)
		ctx := segments.Bind(t.Context(), nil)
		require.NoError(t, err2(segments.Seal(ctx, store.Seal{Start: &store.StepRecord{Name: "charge", Kind: store.ProviderStep}})))
		err := segments.Step(ctx, func(ctx context.Context) error {
			return errors.Join(addEffect(ctx), smuggle(gormstore.Tx(ctx), "COMMIT"))
		})
		require.ErrorIs(t, errors.Join(err, segments.Rollback()), store.ErrEnded)
		advance(t, db, 2*deadline)
		again, claimed, err := st.Begin(t.Context(), again(c))
		require.NoError(t, err)
		require.Nil(t, again)
		require.Equal(t, store.Unknown, claimed.Record.State())
		require.Len(t, claimed.Record.AttemptEnds(), 1)
		require.Equal(t, store.EndItself, claimed.Record.AttemptEnds()[0].How)
	})
}

// What such an attempt leaves says how it has ended, behind the ends of the attempts before. The key's next life begins without.
//
// CONTRACT
func TestEndedAttemptSaysHow(t *testing.T) {
	smuggling(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		c := command(core.Resume)
		first, _ := resume(t, st, c)
		require.NoError(t, err2(first.Seal(first.Bind(t.Context(), nil), store.Seal{Start: &store.StepRecord{Name: "charge",
			Kind: store.ProviderStep}})))
		advance(t, db, 2*deadline)
		next := again(c)
		second, won := resume(t, st, next)
		require.Len(t, won.AttemptEnds(), 1)
		err := second.Step(second.Bind(t.Context(), nil), func(ctx context.Context) error {
			return errors.Join(addEffect(ctx), smuggle(gormstore.Tx(ctx), "COMMIT"))
		})
		require.ErrorIs(t, errors.Join(err, second.Rollback()), store.ErrEnded)
		unknown := requireState(t, st, c, store.Unknown)
		ends := unknown.AttemptEnds()
		require.Len(t, ends, 2)
		require.Equal(t, won.AttemptEnds()[0], ends[0])
		require.Equal(t, store.AttemptEnd{Fence: 2, At: ends[1].At, How: store.EndItself, Instance: next.Owner.Instance()}, ends[1])

		c = command(core.Rollback)
		tx, ctx := begin(t, st, c)
		require.NoError(t, smuggle(gormstore.Tx(ctx), "COMMIT"))
		require.ErrorIs(t, seal(t.Context(), tx, paid(), false), store.ErrEnded)
		unknown = requireState(t, st, c, store.Unknown)
		require.Len(t, unknown.AttemptEnds(), 1)
		advance(t, db, deadline)
		require.NoError(t, err2(st.Settle(t.Context(), store.Settlement{ID: c.ID, Fence: unknown.Fence, Who: "o", Why: "w"})))
		tx, _ = begin(t, st, again(c))
		require.NoError(t, seal(t.Context(), tx, paid(), false))
		require.Nil(t, requireState(t, st, c, store.Completed).Ends)
	})
}

// A push by an operator that another attempt was quicker than changes nothing, and says so.
//
// CONTRACT X-10
func TestAPushThatIsOutrun(t *testing.T) {
	onPostgres(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		for _, giveUp := range []bool{false, true} {
			c := command(core.Resume)
			first, won := resume(t, st, c)
			require.NoError(t, err2(first.Seal(first.Bind(t.Context(), nil), store.Seal{Start: &store.StepRecord{Name: "charge",
				Kind: store.ProviderStep}})))
			advance(t, db, 2*deadline)
			quicker := db.Begin()
			require.NoError(t, quicker.Exec("UPDATE idempotency_record SET fence = fence + 1 WHERE id = ?", c.ID[:]).Error)
			pushed := later(func() error {
				return err2(st.Intervene(t.Context(), store.Intervention{ID: c.ID, Fence: won.Fence, GiveUp: giveUp, Who: "o", Why: "w"}))
			})
			sessions(t, db, 1, "wait_event_type = 'Lock'") // it has seen the operation, and waits for the row
			require.NoError(t, quicker.Commit().Error)
			require.ErrorIs(t, <-pushed, store.ErrStale)
			require.Empty(t, try(st.History(t.Context(), c.ID)).ok(t))
			require.Empty(t, try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t).Ends)
		}
	})
}

// requireEndedItself requires that a record says so of its last attempt, now.
func requireEndedItself(t *testing.T, m *core.Module, rec store.Record) {
	t.Helper()
	ends := rec.AttemptEnds()
	require.Len(t, ends, 1)
	require.Equal(t, store.AttemptEnd{Fence: ends[0].Fence, At: ends[0].At, How: store.EndItself, Instance: m.Instance()}, ends[0])
	require.False(t, ends[0].At.After(rec.Now))
	require.Equal(t, "its handler ended the transaction itself", ends[0].String())
}

// The result of a call that has finished stays, although nobody goes on with the operation: whoever settles it has to know.
//
// CONTRACT
func TestEndedSegmentKeepsResults(t *testing.T) {
	smuggling(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		a := newStepApp(t, st)
		var operation core.ID
		w := a.post(func(ctx context.Context) error {
			operation, _ = core.Operation(ctx)
			charge := func(context.Context, core.DerivedKey) error { return nil }
			return errors.Join(core.CallDo(ctx, "charge", charge, core.Dedup(time.Hour)),
				gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error { return smuggle(tx, "COMMIT") }))
		})
		require.Equal(t, http.StatusConflict, w.Code, w.Body)
		require.Contains(t, w.Body.String(), core.CodeOutcomeUnknown)
		steps := try(st.Steps(t.Context(), operation)).ok(t)
		require.Len(t, steps, 1)
		require.True(t, steps[0].Finished)
		advance(t, db, 2*deadline)
		_, err := operations.New(a.module).Settle(t.Context(), operation, core.Decision{Who: "olga", Why: "no payment was found"})
		require.ErrorIs(t, err, store.ErrStepsFinished)
	})
}

// A handler has rolled back, and written rows on its own. Meanwhile another attempt has the key. If that one gives up, the key
// would be free, and the rows would be written again: so the first attempt does not end before it has parked the operation.
//
// CONTRACT X-8
func TestEndedAttemptWaitsForTheOneThatHasItsKey(t *testing.T) {
	t.Parallel()
	open := wrapped.fresh("", false)(t) // over pgx the unknown record is written at once
	st, elsewhere := newStore(t, open(t)), newStore(t, open(t))
	c := command(core.Rollback)
	first, ctx := begin(t, st, c)
	require.NoError(t, smuggle(gormstore.Tx(ctx), "ROLLBACK"))
	second, _ := begin(t, elsewhere, again(c)) // here it is still running
	ended := later(func() error { return first.Rollback() })
	select {
	case err := <-ended:
		require.Fail(t, "it has given up", err)
	case <-time.After(100 * time.Millisecond): // only one that gives up is noticed here
	}
	require.NoError(t, second.Rollback())
	require.ErrorIs(t, <-ended, store.ErrEnded)
	requireState(t, st, c, store.Unknown)
}

// The rows of an attempt and of a step are undone if the handler has deleted the record that belongs to them: a repeat would
// write them again.
//
// CONTRACT
func TestRowsAreUndoneWithoutTheirRecord(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		for name := range attempts {
			if name == "message" {
				continue // its marker is in another table
			}
			t.Run(name, func(t *testing.T) {
				require.NoError(t, db.Exec("DELETE FROM effects").Error)
				err := attempts[name](t, db, func(tx *gorm.DB) error {
					require.NoError(t, stock(tx))
					return tx.Exec("DELETE FROM idempotency_record").Error
				})
				if name != "step behind a call" { // there was no record yet
					require.NoError(t, err)
					require.Equal(t, 1, countEffects(t, db))
					return
				}
				require.Error(t, err)
				require.NotErrorIs(t, err, store.ErrEnded, "the rows are gone for certain")
				require.Zero(t, countEffects(t, db))
				requireIdle(t, db)
			})
		}
	})
}

// A record that stands in the way at the end of an attempt undoes its rows, and the client is told what a repeat is told. No
// lock has kept it out: two keys whose locks have one number would do.
//
// CONTRACT M-6
func TestAnswerLosesToARecord(t *testing.T) {
	onPostgres(t, func(t *testing.T, db *gorm.DB) {
		store := newStore(t, db)
		first, late := command(core.Rollback), command(core.Rollback)
		require.NoError(t, <-commit(t, store, first, 30*time.Second))
		tx, _ := beginRow(t, store, late)
		require.NoError(t, db.Exec("UPDATE idempotency_record SET id = ? WHERE id = ?", late.ID[:], first.ID[:]).Error)
		require.ErrorIs(t, seal(t.Context(), tx, paid(), false), core.ErrStale)
		require.Equal(t, 1, countEffects(t, db))
		requireIdle(t, db)
	})
}

// At a stricter level than READ COMMITTED an attempt may begin that does not see the record of another one. Its deadline may
// find that out before the attempt ends; whoever ends it is told as well.
//
// CONTRACT M-6
func TestEachRollbackTellsOfAnotherRecord(t *testing.T) {
	t.Parallel()
	for name, level := range map[string]string{"repeatable read": "repeatable%20read", "serializable": "serializable"} {
		t.Run(name, func(t *testing.T) {
			db := openPostgres(t, migratedURL(t)+"&default_transaction_isolation="+level, 16)
			require.NoError(t, db.AutoMigrate(&effect{}))
			st := newStore(t, db)
			for way, begins := range map[string]func(c store.Claim) store.Attempt{
				"Rollback": func(c store.Claim) store.Attempt { tx, _ := begin(t, st, c); return tx },
				"Resume":   func(c store.Claim) store.Attempt { segments, _ := resume(t, st, c); return segments },
			} {
				first, late := command(core.Rollback), command(core.Rollback)
				require.NoError(t, <-commit(t, st, first, 30*time.Second))
				tx := begins(late)
				require.NoError(t, db.Exec("UPDATE idempotency_record SET id = ? WHERE id = ?", late.ID[:], first.ID[:]).Error)
				for range 3 {
					require.ErrorIs(t, tx.Rollback(), core.ErrStale, way)
				}
			}
			requireIdle(t, db)
		})
	}
}

// The look for another attempt's record may fail, as where the database is away at the end of the attempt. Then nobody says
// that nothing was applied: here the payment of this key is committed. The attempt began behind a table lock, with a snapshot
// of before.
//
// CONTRACT M-6
func TestLookForAnotherRecordThatFails(t *testing.T) {
	t.Parallel()
	address := migratedURL(t)
	db := openPostgres(t, address, 16)
	p := newProxy(t, address+"&default_transaction_isolation=repeatable%20read")
	st, beside := newStore(t, openPostgres(t, p.url, 16)), newStore(t, db)
	for recovery, statuses := range map[core.Recovery][]int{core.Rollback: {404, 500}, core.Resume: {403}} {
		module := try(core.New(core.Config{Store: st, Policy: core.Policy{Recovery: recovery}, ClaimTimeout: 20 * time.Second})).ok(t)
		for _, status := range statuses {
			ran := make(chan struct{}, 1)
			var got *httptest.ResponseRecorder
			// Where its connection prepares the look, the look comes behind the lock, and sees the record: that is another story.
			eventually(t, "a handler runs beside a record that its look has not seen", func() bool {
				p.set(nil)
				refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
				eventually(t, "its connection has prepared the statements", func() bool {
					return serve(t, module, rand.Text(), refuse).Code == http.StatusForbidden
				})
				first, key := command(core.Rollback), rand.Text()
				require.NoError(t, <-commit(t, beside, first, 30*time.Second))
				locked := opened(t, db)
				execute(t, locked, "LOCK TABLE idempotency_record")
				answer := make(chan *httptest.ResponseRecorder, 1)
				go func() {
					//nolint:testifylint // where it fails, the test waits for an answer in vain
					answer <- serve(t, module, key, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						ran <- struct{}{}
						p.set(func(bool, []byte) (int, bool) { return 0, true })
						p.cut()
						w.WriteHeader(status)
					}))
				}()
				sessions(t, db, 1, "wait_event_type = 'Lock'")
				id := core.Scoping{}.RecordID(alice, key)
				require.NoError(t, locked.Exec("UPDATE idempotency_record SET id = ? WHERE id = ?", id[:], first.ID[:]).Error)
				require.NoError(t, locked.Commit().Error)
				got = <-answer
				return len(ran) == 1
			})
			require.Equal(t, http.StatusServiceUnavailable, got.Code, "%s, %d: %s", recovery, status, got.Body)
			require.Contains(t, got.Body.String(), "commit_unconfirmed")
			require.Equal(t, "unknown", got.Header().Get("Idempotency-Result"))
		}
	}
}

// A trigger that was made behind the self-test drops the record without an error. Where COMMIT follows in another message, the
// rows do not commit. Where it was on its way already, what has happened is recorded as unknown: a repeat does not run.
//
// CONTRACT M-6, X-8
func TestRecordThatATriggerDrops(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		db := way.fresh("", false)(t)(t)
		st := newStore(t, db)
		require.NoError(t, db.Exec("CREATE FUNCTION dropped() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'").Error)
		require.NoError(t, db.Exec("CREATE TRIGGER dropped BEFORE INSERT ON idempotency_record FOR EACH ROW "+
			"WHEN (NEW.state = 2) EXECUTE FUNCTION dropped()").Error)
		c := command(core.Rollback)
		tx, _ := beginRow(t, st, c)
		err := seal(t.Context(), tx, paid(), false)
		requireIdle(t, db)
		if way == wrapped {
			require.ErrorIs(t, err, core.ErrStale)
			require.Zero(t, countEffects(t, db))
			return
		}
		require.ErrorIs(t, err, store.ErrEnded)
		require.Equal(t, store.Unknown, try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t).State())
	})
}

// The same for one of two steps: nothing of their segment commits without it.
//
// CONTRACT X-14
func TestStepThatATriggerDrops(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		if db.Name() == "sqlite" {
			execute(t, db, `CREATE TRIGGER dropped BEFORE INSERT ON idempotency_step WHEN NEW.name = 'second'
				BEGIN SELECT RAISE(IGNORE); END`)
		} else {
			execute(t, db, "CREATE FUNCTION dropped() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
				`CREATE TRIGGER dropped BEFORE INSERT ON idempotency_step FOR EACH ROW WHEN (NEW.name = 'second')
				EXECUTE FUNCTION dropped()`)
		}
		for _, names := range [][]string{{"first", "second"}, {"second", "first"}} {
			c := command(core.Resume)
			segments, claimed, err := st.Begin(t.Context(), c)
			require.NoError(t, err)
			require.True(t, claimed.Won)
			var steps []store.StepRecord
			for _, name := range names {
				require.NoError(t, segments.Step(t.Context(), addEffect))
				steps = append(steps, store.StepRecord{Name: name, Kind: store.DatabaseStep, Result: []byte("{}")})
			}
			_, err = segments.Seal(t.Context(), store.Seal{Steps: steps})
			require.Error(t, err)
			require.Zero(t, countEffects(t, db))
			found, err := st.Steps(t.Context(), c.ID)
			require.NoError(t, err)
			require.Empty(t, found)
		}
	})
}
