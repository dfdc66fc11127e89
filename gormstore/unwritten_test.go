package gormstore_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// requireWrote checks what the transaction of a Rollback attempt says when work is done.
func requireWrote(t *testing.T, st *gormstore.Store, want bool, name string, work func(ctx context.Context) error) {
	t.Helper()
	requireClaimWrote(t, st, command(core.Rollback), want, name, work)
}

func requireClaimWrote(
	t *testing.T, st *gormstore.Store, c store.Claim, want bool, name string, work func(ctx context.Context) error,
) {
	t.Helper()
	tx, ctx := begin(t, st, c)
	require.NoError(t, work(ctx), name)
	require.Equal(t, want, tx.Statements().Wrote, name)
	require.NoError(t, tx.Rollback())
}

// What counts as a write of the attempt: a read through it does not, whatever else the handler has written elsewhere.
//
// CONTRACT X-11
func TestWhatAnAttemptHasWritten(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		st, box := newStore(t, db), newInbox(t, db, stockInbox)
		postgres := db.Name() == "postgres"
		for text, wrote := range map[string]bool{
			"SELECT 1":                     false,
			"(SELECT 1)":                   false,
			"SELECT count(*) FROM effects": false,
			"WITH n AS (SELECT 1 AS i) SELECT i FROM n":  false,
			"SAVEPOINT a; RELEASE SAVEPOINT a":           false,
			"INSERT INTO effects (name) VALUES ('a')":    true,
			"UPDATE effects SET name = 'b' WHERE 1 = 0":  true, // it writes nothing, and would have
			"SELECT 1; DELETE FROM effects WHERE 1 = 0":  true,
			"/* a */ -- b\n DELETE FROM effects":         true,
			"SELECT id FROM effects FOR UPDATE":          false,
			"SET LOCAL statement_timeout = 9999":         false,
			"SELECT pg_advisory_xact_lock(7)":            true, // not in the list of functions that only read
			"LOCK TABLE effects IN ROW EXCLUSIVE MODE":   false,
			"SELECT * INTO TEMPORARY x FROM effects":     true,
			"WITH d AS (DELETE FROM effects) SELECT 1":   true,
			"DO $$ BEGIN DELETE FROM effects; END $$":    true,
			"CREATE TEMPORARY TABLE t (n integer)":       true,
			"EXPLAIN SELECT 1":                           false,
			"EXPLAIN ANALYZE DELETE FROM effects":        true,
			"SELECT nextval('effects_id_seq'::regclass)": true,
		} {
			if !postgres && !onSQLiteToo[text] {
				continue
			}
			requireWrote(t, st, wrote, text, func(ctx context.Context) error { return gormstore.Tx(ctx).Exec(text).Error })
		}
		requireWrote(t, st, false, "nothing", func(context.Context) error { return nil })
		requireWrote(t, st, false, "First", func(ctx context.Context) error {
			err := gormstore.Tx(ctx).First(&effect{}, 7).Error
			if errors.Is(err, gorm.ErrRecordNotFound) {
				return nil
			}
			return err
		})
		requireWrote(t, st, true, "Create", func(ctx context.Context) error { return gormstore.Tx(ctx).Create(&effect{Name: "a"}).Error })
		requireWrote(t, st, true, "undone by a savepoint", func(ctx context.Context) error {
			_ = gormstore.Tx(ctx).Transaction(func(tx *gorm.DB) error { return errors.Join(stock(tx), errors.New("no")) })
			return nil
		})
		requireWrote(t, st, true, "a message", func(ctx context.Context) error { return box.Process(ctx, message(), stock) })
		requireWrote(t, st, true, "SQLTx", func(ctx context.Context) error {
			tx, _ := gormstore.SQLTx(ctx)
			_, err := tx.ExecContext(ctx, "INSERT INTO effects (name) VALUES ('sql')")
			return err
		})
		c := command(core.Rollback)
		requireClaimWrote(t, st, c, false, "a reference", func(ctx context.Context) error {
			return st.Refer(ctx, c.ID, c.Realm, store.Ref{Name: "order", Value: "7"})
		})
	})
}

var onSQLiteToo = map[string]bool{
	"SELECT 1": true, "SELECT count(*) FROM effects": true, "WITH n AS (SELECT 1 AS i) SELECT i FROM n": true,
	"INSERT INTO effects (name) VALUES ('a')": true, "UPDATE effects SET name = 'b' WHERE 1 = 0": true,
	"/* a */ -- b\n DELETE FROM effects": true, "CREATE TEMPORARY TABLE t (n integer)": true,
}

// CONTRACT X-11
func TestWhatPgxTxHasWritten(t *testing.T) {
	t.Parallel()
	st := newStore(t, freshPool(t)(t))
	for name, c := range map[string]struct {
		wrote bool
		work  func(ctx context.Context, tx gormstore.PgxDBTX) error
	}{
		"nothing": {false, func(context.Context, gormstore.PgxDBTX) error { return nil }},
		"QueryRow": {false, func(ctx context.Context, tx gormstore.PgxDBTX) error {
			return tx.QueryRow(ctx, "SELECT 1").Scan(new(int))
		}},
		"Exec": {true, func(ctx context.Context, tx gormstore.PgxDBTX) error {
			return err2(tx.Exec(ctx, "INSERT INTO effects (name) VALUES ($1)", "a"))
		}},
		"a batch of reads": {false, func(ctx context.Context, tx gormstore.PgxDBTX) error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			return tx.SendBatch(ctx, b).Close()
		}},
		"a batch": {true, func(ctx context.Context, tx gormstore.PgxDBTX) error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			b.Queue("INSERT INTO effects (name) VALUES ('b')")
			return tx.SendBatch(ctx, b).Close()
		}},
		"CopyFrom": {true, func(ctx context.Context, tx gormstore.PgxDBTX) error {
			return err2(tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{"c"}})))
		}},
	} {
		requireWrote(t, st, c.wrote, name, func(ctx context.Context) error {
			tx, ok := gormstore.PgxTx(ctx)
			require.True(t, ok)
			return c.work(ctx, tx)
		})
	}
}

// requestTx is the key of the transaction that an app's own middleware puts into the context of each request.
type requestTx struct{}

func conn(ctx context.Context) *gorm.DB {
	if tx, ok := gormstore.TxFrom(ctx); ok {
		return tx // the attempt commits
	}
	return ctx.Value(requestTx{}).(*gorm.DB) // of the middleware, as before
}

// Middleware that commits behind the chain: when its COMMIT fails, the client has its answer already, and a read through the
// attempt does not make that right.
//
// CONTRACT X-11, P-1
func TestATransactionPerRequest(t *testing.T) {
	onPostgres(t, func(t *testing.T, db *gorm.DB) {
		st := newStore(t, db)
		past := func(ctx context.Context) *gorm.DB { return ctx.Value(requestTx{}).(*gorm.DB) }
		for name, c := range map[string]struct {
			unwritten core.Unwritten
			writes    func(ctx context.Context) *gorm.DB
			status    int
			rows      int
		}{
			"told-of": {core.UnwrittenEvent, past, http.StatusCreated, 0},
			"refused": {core.UnwrittenRefused, past, http.StatusInternalServerError, 0},
			"mended":  {core.UnwrittenRefused, conn, http.StatusCreated, 1},
		} {
			t.Run(name, func(t *testing.T) {
				unused := 0
				observer := core.ObserverFunc(func(_ context.Context, e core.Event) {
					if e.Kind == core.EventTransactionUnused {
						unused++
					}
				})
				module := try(core.New(core.Config{Store: st, Observer: observer,
					Policy: core.Policy{Recovery: core.Rollback, Unwritten: c.unwritten}})).ok(t)
				before := countEffects(t, db)
				for range 2 {
					own := opened(t, db) // and its COMMIT fails
					w := serve(t, module, name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						ctx := context.WithValue(r.Context(), requestTx{}, own)
						require.NoError(t, gormstore.Tx(ctx).Find(&[]effect{}).Error)
						require.NoError(t, c.writes(ctx).Create(&effect{Name: "row"}).Error)
						w.WriteHeader(http.StatusCreated)
					}))
					require.NoError(t, own.Rollback().Error)
					require.Equal(t, c.status, w.Code, w.Body)
					if c.status != http.StatusCreated {
						require.Contains(t, w.Body.String(), `"code":"transaction_unused"`)
						require.Empty(t, w.Header().Get("Idempotency-Result"))
					}
				}
				require.Equal(t, before+c.rows, countEffects(t, db))
				require.Equal(t, c.rows == 0, unused > 0)
			})
		}
	})
}
