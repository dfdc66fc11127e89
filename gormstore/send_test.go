package gormstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// way is how the statements of the store reach PostgreSQL.
type way bool

const (
	overPgx way = false // one message for several statements
	wrapped way = true  // one by one, as over any driver that is not pgx
)

// of makes the stores on db send their statements in this way.
func (w way) of(t *testing.T, db *gorm.DB) *gorm.DB {
	t.Helper()
	if w == overPgx {
		return db
	}
	config := db.Dialector.(*postgres.Dialector).Config
	url := config.DSN
	if config.PreferSimpleProtocol {
		url += "&default_query_exec_mode=simple_protocol"
	}
	pool := try(db.DB()).ok(t)
	return openDB(t, postgres.New(postgres.Config{Conn: wrap(t, url)}), pool.Stats().MaxOpenConnections)
}

// pool opens a database in this way.
func (w way) pool(config pgx.ConnConfig) *sql.DB {
	connector := stdlib.GetConnector(config)
	if w == wrapped {
		connector = wrapper{connector}
	}
	return sql.OpenDB(connector)
}

// fresh makes databases whose stores send their statements in this way.
func (w way) fresh(parameters string, simple bool) func(t *testing.T) func(t *testing.T) *gorm.DB {
	return func(t *testing.T) func(t *testing.T) *gorm.DB {
		open := freshPostgres(parameters, simple)(t)
		return func(t *testing.T) *gorm.DB { return w.of(t, open(t)) }
	}
}

// bothWays runs a test in both ways, beside others.
func bothWays(t *testing.T, run func(t *testing.T, way way)) {
	t.Helper()
	t.Parallel()
	t.Run("over pgx", func(t *testing.T) { run(t, overPgx) })
	t.Run("wrapped", func(t *testing.T) { run(t, wrapped) })
}

// onPostgres is bothWays with a fresh database.
func onPostgres(t *testing.T, run func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	bothWays(t, func(t *testing.T, way way) { run(t, way.fresh("", false)(t)(t)) })
}

// failing makes a statement on the records fail with a given SQLSTATE, or COMMIT.
const failing = `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'on purpose' USING ERRCODE = TG_ARGV[0];
END $$`

// An error of the server at the end of an attempt: the statement that records the answer, or COMMIT, fails. COMMIT may be on
// its way by then, and nothing commits.
//
// CONTRACT
func TestEndsThatFail(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		for protocol, simple := range map[string]bool{"extended": false, "simple": true} {
			db := way.fresh("", simple)(t)(t)
			execute(t, db, failing)
			st := newStore(t, db)
			for _, at := range []string{"the answer", "COMMIT"} {
				for _, state := range []string{"40001", "40P01", "55P03", "57014", "57P01", "23514", "42501", "53100", "XX000"} {
					t.Run(protocol+", "+at+" "+state, func(t *testing.T) {
						trigger := "CREATE TRIGGER failing BEFORE INSERT OR UPDATE ON idempotency_record FOR EACH ROW"
						if at == "COMMIT" {
							trigger = "CREATE CONSTRAINT TRIGGER failing AFTER INSERT OR UPDATE ON idempotency_record " +
								"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
						}
						// What reads a COMMIT back writes a free record, which passes, and which the next attempt updates.
						trigger += " WHEN (NEW.state <> 5)"
						require.NoError(t, db.Exec(trigger+" EXECUTE FUNCTION fail('"+state+"')").Error)
						c := command(store.Rollback)
						outcomes := []error{<-commit(t, st, c, 30*time.Second)}
						tx, _ := beginRow(t, st, c)
						outcomes = append(outcomes, seal(t.Context(), tx, refused(), true))
						for _, err := range outcomes {
							want := store.ErrRetryable
							if state == "23514" {
								want = store.ErrAborted
							}
							require.ErrorIs(t, err, want)
						}
						require.NoError(t, db.Exec("DROP TRIGGER failing ON idempotency_record").Error)
						require.Zero(t, countEffects(t, db))
						requireIdle(t, db)
						requireFree(t, st, c)
					})
				}
			}
		}
	})
}

// A refusal is recorded in a transaction that no handler has run in: after a conflict it is sent again. What the handler has
// run in is rolled back.
//
// CONTRACT M-6, X-0
func TestRecordsThatConflict(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		db := way.fresh("", false)(t)(t)
		execute(t, db, "CREATE SEQUENCE tries", `CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('tries') <= 3 THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = '40001'; END IF;
	RETURN coalesce(NEW, OLD);
END $$`, "CREATE TRIGGER conflict BEFORE INSERT ON idempotency_record FOR EACH ROW EXECUTE FUNCTION conflict()")
		st := newStore(t, db)
		c := command(store.Rollback)
		tx, _ := beginRow(t, st, c)
		require.NoError(t, seal(t.Context(), tx, refused(), true))
		requireCompleted(t, st, c, refused())

		// So it is where steps of a free record are to be forgotten with it.
		require.NoError(t, db.Exec("ALTER SEQUENCE tries RESTART WITH 4").Error)
		freed := freeWithStep(t, st)
		execute(t, db, "ALTER SEQUENCE tries RESTART", "DROP TRIGGER conflict ON idempotency_record",
			"CREATE TRIGGER conflict BEFORE DELETE ON idempotency_step FOR EACH ROW EXECUTE FUNCTION conflict()")
		tx, _ = beginRow(t, st, again(freed))
		require.NoError(t, seal(t.Context(), tx, refused(), true))
		rec := try(st.Find(t.Context(), freed.ID, store.Viewer{All: true})).ok(t)
		require.Equal(t, http.StatusPaymentRequired, rec.Answer.Status)

		execute(t, db, "CREATE TRIGGER again BEFORE INSERT ON idempotency_record FOR EACH ROW EXECUTE FUNCTION conflict()",
			"ALTER SEQUENCE tries RESTART")
		require.ErrorIs(t, <-commit(t, st, command(store.Rollback), 30*time.Second), store.ErrRetryable)
		require.Zero(t, countEffects(t, db))
		requireIdle(t, db)
	})
}

// The record is the judge: whatever stands in its way when the attempt ends, nothing of the attempt is applied. Here somebody
// has written a record without the key's lock, and commits it while the end waits for it.
//
// CONTRACT M-6, X-14
func TestRecordsThatLose(t *testing.T) {
	stands := map[string]struct {
		write func(db *gorm.DB, c store.Claim) error
		lost  bool
	}{
		"a completed record": {func(*gorm.DB, store.Claim) error { return nil }, true},
		"another free record than the one that was seen": {func(db *gorm.DB, c store.Claim) error {
			return db.Exec("UPDATE idempotency_record SET state = 5 WHERE id = ?", c.ID[:]).Error
		}, true},
		"nothing": {func(db *gorm.DB, c store.Claim) error {
			return db.Exec("DELETE FROM idempotency_record WHERE id = ?", c.ID[:]).Error
		}, false},
	}
	bothWays(t, func(t *testing.T, way way) {
		for _, level := range []string{"", "&default_transaction_isolation=serializable"} {
			db := way.fresh(level, false)(t)(t)
			st := newStore(t, db)
			for name, stand := range stands {
				for _, status := range []string{"2xx", "4xx"} {
					t.Run(strings.TrimPrefix(level, "&")+" "+name+", "+status, func(t *testing.T) {
						execute(t, db, "DELETE FROM effects", "DELETE FROM idempotency_record", "DROP TABLE IF EXISTS kept")
						c := command(store.Rollback)
						require.NoError(t, <-commit(t, st, c, 30*time.Second))
						execute(t, db, "CREATE TABLE kept AS SELECT * FROM idempotency_record", "DELETE FROM idempotency_record")

						tx, _ := beginRow(t, st, again(c))
						other := db.Begin()
						require.NoError(t, other.Exec("INSERT INTO idempotency_record SELECT * FROM kept").Error)
						require.NoError(t, stand.write(other, c))
						ended := later(func() error { return answers[status](t, tx) })
						sessions(t, db, 1, "wait_event_type = 'Lock'")
						require.NoError(t, other.Commit().Error)
						err := <-ended
						rows := 1
						switch {
						case stand.lost && name == "a completed record":
							require.ErrorIs(t, err, store.ErrStale)
						case stand.lost:
							require.True(t, errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrRetryable), "%v", err)
						case level != "" && status == "2xx": // its snapshot is older
							require.ErrorIs(t, err, store.ErrRetryable)
						default:
							require.NoError(t, err)
							if status == "2xx" {
								rows++
							}
						}
						require.Equal(t, rows, countEffects(t, db))
						requireIdle(t, db)
					})
				}
			}
		}
	})
}

// freeWithStep returns the command of a Rollback attempt whose key was freed by a Resume attempt, of which a step is left.
func freeWithStep(t *testing.T, st *gormstore.Store) store.Claim {
	t.Helper()
	c := command(store.Resume)
	ticket := resumed(t, st, c, store.Seal{Start: &store.StepRecord{Name: "old", Kind: store.ProviderStep}})
	require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Free}))
	c.Recovery = store.Rollback
	return c
}

// A free record gives way to the next attempt, with a higher fence, and its steps are forgotten in the same commit; the sweep
// may have dropped it in between.
//
// CONTRACT X-15, M-6
func TestRecordsThatReplaceAFreeOne(t *testing.T) {
	db, st := parallelStore(t)
	for status, answer := range map[int]store.Completion{201: paid(), 402: refused()} {
		for _, dropped := range []bool{false, true} {
			t.Run(fmt.Sprint(status, dropped), func(t *testing.T) {
				c := freeWithStep(t, st)
				tx, _ := beginRow(t, st, again(c))
				if dropped {
					execute(t, db, "DELETE FROM idempotency_record", "DELETE FROM idempotency_step")
				}
				require.NoError(t, seal(t.Context(), tx, answer, status == 402))
				rec := try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t)
				require.Equal(t, store.Completed, rec.Stored)
				require.Equal(t, status, rec.Answer.Status)
				require.EqualValues(t, 2, rec.Fence)
				require.Equal(t, store.Rollback, rec.Recovery)
				require.Empty(t, try(st.Steps(t.Context(), c.ID)).ok(t))
			})
		}
	}
}
