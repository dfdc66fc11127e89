package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// backends returns the server's processes of a pool's connections that are idle.
func backends(t *testing.T, db *gorm.DB) (pids []int) {
	t.Helper()
	pool := try(db.DB()).ok(t)
	for range pool.Stats().Idle {
		c := try(pool.Conn(t.Context())).ok(t)
		defer func() { require.NoError(t, c.Close()) }()
		var pid int
		require.NoError(t, c.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		pids = append(pids, pid)
	}
	return pids
}

// What a block, a procedure or a function has left on a connection reaches nobody else, whether the rows commit or not: neither
// a role, nor read-only transactions, nor a lock of the session. Other connections go back to the pool.
//
// CONTRACT
func TestResidueReachesNobody(t *testing.T) {
	onPostgres(t, func(t *testing.T, db *gorm.DB) {
		const readOnly = "set_config('default_transaction_read_only', 'on', false)"
		role := newRole(t, db)
		execute(t, db,
			"CREATE FUNCTION freeze() RETURNS text LANGUAGE sql AS $$ SELECT "+readOnly+" $$",
			"CREATE PROCEDURE turn(name text) LANGUAGE sql AS $$ SELECT set_config('role', name, false) $$",
			"CREATE SEQUENCE numbers",
		)
		send := func(tx *gorm.DB, statement string) error { return tx.Raw(statement).Scan(&[]string{}).Error }
		failure := errors.New("failed")
		for way, run := range attempts {
			for _, failed := range []error{nil, failure} {
				t.Run(fmt.Sprint(way, ", ", failed), func(t *testing.T) {
					for statement, stays := range map[string]bool{
						"DO $$ BEGIN SET ROLE " + role + "; END $$": false, "DO $$ BEGIN PERFORM " + readOnly + "; END $$": false,
						"CALL turn('" + role + "')": false, "SELECT freeze()": false, "UPDATE effects SET name = freeze()": false,
						"SELECT * INTO TEMP kept FROM effects": false, "EXPLAIN ANALYZE CREATE TEMP TABLE kept AS TABLE effects": false,
						"SELECT pg_advisory_lock(77)": false, "SELECT nextval('numbers')": true, "SELECT pg_advisory_xact_lock(77)": true,
						"SET LOCAL statement_timeout = 9999": true, "SELECT set_config('app.tenant', 'a', true)": true,
						"INSERT INTO effects (id, name) VALUES (1, lower('X')) ON CONFLICT (id) DO NOTHING": true,
					} {
						var pid int
						err := run(t, db, func(tx *gorm.DB) error {
							pid = query[int](t, tx, "SELECT pg_backend_pid()")
							require.NoError(t, stock(tx))
							require.NoError(t, send(tx, statement))
							return failed
						})
						require.ErrorIs(t, err, failed, statement)
						require.Equal(t, stays, slices.Contains(backends(t, db), pid), statement)
					}
				})
			}
		}
		var left int
		require.NoError(t, db.Raw("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND pid IN ?",
			backends(t, db)).Scan(&left).Error)
		require.Zero(t, left)
	})
}

// warnings keeps what is logged as a warning.
type warnings struct {
	logger.Interface
	mu   sync.Mutex
	told []string
}

func (w *warnings) Warn(_ context.Context, text string, data ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(text, data...))
}

// A function of the app that is said to be harmless costs no connection. Of each other one the log tells once.
//
// CONTRACT X-9
func TestHarmlessFunctions(t *testing.T) {
	db := parallelPostgres(t)
	logged := &warnings{Interface: logger.Discard}
	db = reopen(t, db, &gorm.Config{Logger: logged})
	for _, name := range []string{"total", "other"} {
		require.NoError(t, db.Exec("CREATE FUNCTION "+name+"() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$").Error)
	}
	schema := currentSchema(t, db)
	store := try(gormstore.New(db, gormstore.HarmlessFunctions("Total", schema+".other"))).ok(t)
	for statement, harmless := range map[string]bool{
		"SELECT total()": true, "SELECT TOTAL()": true, "SELECT " + schema + ".other()": true,
		"SELECT " + schema + ".total()": false, "SELECT other()": false, "SELECT total() FROM (SELECT other()) o": false,
	} {
		var pid int
		tx, ctx := begin(t, store, command(core.Rollback))
		require.NoError(t, gormstore.Tx(ctx).Raw("SELECT pg_backend_pid()").Scan(&pid).Error)
		require.NoError(t, gormstore.Tx(ctx).Exec(statement).Error)
		require.NoError(t, seal(t.Context(), tx, paid(), false))
		require.Equal(t, harmless, slices.Contains(backends(t, db), pid), statement)
	}

	store = newStore(t, db)
	logged.told = nil
	for range 3 {
		tx, ctx := begin(t, store, command(core.Rollback))
		require.NoError(t, gormstore.Tx(ctx).Exec("SELECT other()").Error)
		require.NoError(t, tx.Rollback())
	}
	require.Len(t, logged.told, 1)
	require.Contains(t, logged.told[0], "sends other")
	require.Contains(t, logged.told[0], "HarmlessFunctions")
}

// A text that is a string with standard_conforming_strings on, and a COMMIT with it off, is refused, and so is such a write past
// the attempt.
//
// CONTRACT
func TestStringsThatDoNotConform(t *testing.T) {
	onPostgres(t, func(t *testing.T, db *gorm.DB) {
		for way, run := range attempts {
			before := countEffects(t, db)
			require.NoError(t, run(t, db, func(tx *gorm.DB) error {
				require.NoError(t, tx.Exec("SET LOCAL standard_conforming_strings = off").Error)
				require.NoError(t, stock(tx))
				require.ErrorContains(t, tx.Exec(`SELECT '\''; COMMIT; --'`).Error, "must not end", way)
				outside := db.WithContext(tx.Statement.Context)
				require.ErrorIs(t, outside.Exec(`SELECT '\''; DELETE FROM effects; --'`).Error, gormstore.ErrOutsideTransaction, way)
				return tx.Exec(`UPDATE effects SET name = 'C:\\' WHERE false`).Error
			}), way)
			require.Equal(t, before+1, countEffects(t, db), way)
		}
	})
}
