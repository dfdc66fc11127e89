package gormstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// secret is a value in a statement, which no event may have.
const secret = "4111111111111111"

const addSecret = "INSERT INTO effects (name) VALUES ('" + secret + "')"

// A handler ignores that the library has refused a statement, and answers with a success: an event says so, once, with the
// attempt's operation and without the statement's values.
//
// CONTRACT, K-6
func TestRefusedStatementsAreToldOf(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	below := newPool(t, address, gormstore.PgxWriteGuard())
	db := gormOver(t, below)
	migrate(t, db)
	plain := guardedSQL(t, address, nil)
	other := openDB(t, postgres.Open(address), 2)
	require.NoError(t, other.Use(gormstore.WriteGuard()))
	bySQL := func(ctx context.Context) gormstore.DBTX { tx, _ := gormstore.SQLTx(ctx); return tx }
	byPgx := func(ctx context.Context) gormstore.PgxDBTX { tx, _ := gormstore.PgxTx(ctx); return tx }
	past := map[string]func(ctx context.Context) error{
		"past it, GORM":         func(ctx context.Context) error { return other.WithContext(ctx).Exec(addSecret).Error },
		"past it, GORM, raw":    func(ctx context.Context) error { return closed(other.WithContext(ctx).Raw(addSecret).Rows()) },
		"past it, database/sql": func(ctx context.Context) error { return err2(plain.ExecContext(ctx, addSecret)) },
		"past it, a transaction": func(ctx context.Context) error {
			return inOwnTx(ctx, plain, func(tx *sql.Tx) error { return err2(tx.ExecContext(context.Background(), addSecret)) })
		},
		"past it, pgx":           func(ctx context.Context) error { return err2(below.Exec(ctx, addSecret)) },
		"past it, pgx, copy":     func(ctx context.Context) error { return pastPgx["copy"](ctx, below) },
		"past it, a value alone": func(ctx context.Context) error { return err2(plain.ExecContext(ctx, "'"+secret+"'")) },
	}
	inside := map[string]func(ctx context.Context) error{
		"COMMIT, GORM":         func(ctx context.Context) error { return gormstore.Tx(ctx).Exec("COMMIT; " + addSecret).Error },
		"COMMIT, database/sql": func(ctx context.Context) error { return err2(bySQL(ctx).ExecContext(ctx, "COMMIT")) },
		"COMMIT, other context": func(ctx context.Context) error {
			return err2(bySQL(ctx).ExecContext(context.Background(), "COMMIT"))
		},
		"COMMIT, row":   func(ctx context.Context) error { return bySQL(ctx).QueryRowContext(ctx, "COMMIT").Scan(new(int)) },
		"COMMIT, pgx":   func(ctx context.Context) error { return err2(byPgx(ctx).Exec(ctx, "COMMIT")) },
		"COMMIT, batch": func(ctx context.Context) error { return inBatch(ctx, byPgx(ctx), "COMMIT") },
		"SET":           func(ctx context.Context) error { return gormstore.Tx(ctx).Exec("SET role = '" + secret + "'").Error },
		"reserved":      func(ctx context.Context) error { return gormstore.Tx(ctx).Exec("SAVEPOINT idem_message").Error },
		"Commit":        func(ctx context.Context) error { return gormstore.Tx(ctx).Commit().Error },
		"Rollback":      func(ctx context.Context) error { return gormstore.Tx(ctx).Rollback().Error },
		"prepared": func(ctx context.Context) error {
			return err2(bySQL(ctx).PrepareContext(ctx, addSecret))
		},
		"prepared, GORM": func(ctx context.Context) error {
			return gormstore.Tx(ctx).Session(&gorm.Session{PrepareStmt: true}).Exec(addSecret).Error
		},
	}
	ways := map[core.Recovery]map[string]func(ctx context.Context) error{core.Rollback: inside, core.Resume: {
		"outside a step, GORM":         func(ctx context.Context) error { return gormstore.Tx(ctx).Exec(addSecret).Error },
		"outside a step, database/sql": func(ctx context.Context) error { return err2(bySQL(ctx).ExecContext(ctx, addSecret)) },
		"outside a step, other context": func(ctx context.Context) error {
			return err2(bySQL(ctx).ExecContext(context.Background(), addSecret))
		},
		"outside a step, row": func(ctx context.Context) error {
			return bySQL(ctx).QueryRowContext(ctx, addSecret).Scan(new(int))
		},
		"outside a step, pgx": func(ctx context.Context) error { return err2(byPgx(ctx).Exec(ctx, addSecret)) },
		"outside a step, copy": func(ctx context.Context) error {
			return err2(byPgx(ctx).CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{secret}})))
		},
		"a step that is over": func(ctx context.Context) error {
			var kept gormstore.DBTX
			if err := gormstore.StepDo(ctx, rand.Text(), func(tx *gorm.DB) error {
				kept, _ = gormstore.SQLTx(tx.Statement.Context)
				return nil
			}); err != nil {
				return err
			}
			return err2(kept.ExecContext(ctx, addSecret))
		},
	}}
	for name, write := range past {
		ways[core.Rollback][name], ways[core.Resume][name] = write, write
	}
	st := newStore(t, db)
	for recovery, ways := range ways {
		for name, write := range ways {
			t.Run(recovery.String()+", "+name, func(t *testing.T) {
				events := &told{}
				module := try(core.New(core.Config{Store: st, Policy: core.Policy{Recovery: recovery}, Observer: events})).ok(t)
				var operation core.ID
				answer := serve(t, module, rand.Text(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					operation, _ = core.Operation(r.Context())
					require.NoError(t, bySQL(r.Context()).QueryRowContext(r.Context(), "SELECT 1").Scan(new(int)), "no event")
					for range 2 {
						require.Error(t, write(r.Context()))
					}
					w.WriteHeader(http.StatusCreated)
				}))
				require.Equal(t, http.StatusCreated, answer.Code)
				require.Equal(t, 1, events.count(core.EventWriteRefused))
				e := events.last(core.EventWriteRefused)
				require.True(t, e.Kind.IsWarning())
				require.Equal(t, operation, e.Operation)
				require.Equal(t, "/v1/refunds", e.Route)
				require.ErrorContains(t, e.Err, "idem: gormstore: ")
				require.NotContains(t, e.Err.Error(), secret)
				require.Zero(t, countEffects(t, db))
			})
		}
	}
}
