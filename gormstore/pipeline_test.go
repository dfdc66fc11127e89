package gormstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/pgxpipe"
)

// pipelined marks a database whose stores send several statements in one round trip.
type pipelined struct{}

// Name implements [gorm.Plugin].
func (pipelined) Name() string { return "test:pipelined" }

// Initialize implements [gorm.Plugin].
func (pipelined) Initialize(*gorm.DB) error { return nil }

// optionsFor are those of a store on db.
func optionsFor(db *gorm.DB) []gormstore.Option {
	if _, ok := db.Plugins[pipelined{}.Name()]; ok {
		return []gormstore.Option{gormstore.WithPipeline(pgxpipe.New())}
	}
	return nil
}

// way is how the statements of a Rollback attempt are sent.
type way bool

const (
	oneByOne   way = false
	inPipeline way = true
)

// of makes the stores on db send their statements in this way.
func (w way) of(t *testing.T, db *gorm.DB) *gorm.DB {
	t.Helper()
	if w == inPipeline {
		require.NoError(t, db.Use(pipelined{}))
	}
	return db
}

// fresh makes databases whose stores send their statements in this way.
func (w way) fresh(parameters string, simple bool) func(t *testing.T) func(t *testing.T) *gorm.DB {
	return func(t *testing.T) func(t *testing.T) *gorm.DB {
		open := freshPostgres(parameters, simple)(t)
		return func(t *testing.T) *gorm.DB { return w.of(t, open(t)) }
	}
}

// bothWays runs a test in both ways.
func bothWays(t *testing.T, run func(t *testing.T, way way)) {
	t.Helper()
	t.Run("one by one", func(t *testing.T) { run(t, oneByOne) })
	t.Run("pipelined", func(t *testing.T) { run(t, inPipeline) })
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
	t.Parallel()
	bothWays(t, func(t *testing.T, way way) {
		for protocol, simple := range map[string]bool{"extended": false, "simple": true} {
			db := way.fresh("", simple)(t)(t)
			require.NoError(t, db.Exec(failing).Error)
			store := newStore(t, db)
			for _, place := range []string{"the answer", "COMMIT"} {
				for _, state := range []string{"40001", "40P01", "55P03", "57014", "57P01", "23514", "42501", "53100", "XX000"} {
					t.Run(protocol+", "+place+" "+state, func(t *testing.T) {
						trigger := "CREATE TRIGGER failing BEFORE UPDATE ON idempotency_record FOR EACH ROW"
						if place == "COMMIT" {
							trigger = "CREATE CONSTRAINT TRIGGER failing AFTER UPDATE ON idempotency_record " +
								"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
						}
						require.NoError(t, db.Exec(trigger+" EXECUTE FUNCTION fail('"+state+"')").Error)
						c := command(core.Rollback)
						outcomes := []error{<-commit(t, store, c, 30*time.Second)}
						tx, ctx := begin(t, store, c)
						require.NoError(t, addEffect(ctx))
						outcomes = append(outcomes, tx.Commit(t.Context(), refused(), true))
						for _, err := range outcomes {
							switch {
							case slices.Contains([]string{"23514", "42501"}, state):
								require.ErrorIs(t, err, core.ErrAborted)
							case slices.Contains([]string{"53100", "XX000"}, state) && place == "the answer" && way == oneByOne:
								require.ErrorIs(t, err, core.ErrAborted)
							default:
								require.ErrorIs(t, err, core.ErrRetryable)
							}
						}
						require.NoError(t, db.Exec("DROP TRIGGER failing ON idempotency_record").Error)
						require.Zero(t, countEffects(t, db))
						requireIdle(t, db)
						requireFree(t, store, c, time.Second)
					})
				}
			}
		}
	})
}

// A claim that fails with a conflict is sent again, in another transaction.
//
// CONTRACT M-6, X-0
func TestClaimsThatConflict(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way way) {
		db := way.fresh("", false)(t)(t)
		require.NoError(t, db.Exec(`CREATE SEQUENCE tries;
CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('tries') <= 3 THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = '40001'; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER conflict BEFORE INSERT ON idempotency_record FOR EACH ROW EXECUTE FUNCTION conflict()`).Error)
		store := newStore(t, db)
		c := command(core.Rollback)
		require.NoError(t, <-commit(t, store, c, 30*time.Second))
		requireCompleted(t, store, c, paid())
		require.Equal(t, 1, countEffects(t, db))
		requireIdle(t, db)
	})
}

// A claim waits for a row that somebody else has written and not committed. What it finds then counts. Where it takes the
// record over, a refusal undoes the handler's rows, and not the claim.
//
// CONTRACT M-6, X-0
func TestClaimsThatWait(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way way) {
		for name, ends := range map[string]struct {
			write func(t *testing.T, db *gorm.DB, c core.Claim) error
			won   bool
		}{
			"a free record": {func(_ *testing.T, db *gorm.DB, c core.Claim) error {
				return db.Exec("UPDATE idempotency_record SET state = 5 WHERE id = ?", c.ID[:]).Error
			}, true},
			"a completed record": {func(*testing.T, *gorm.DB, core.Claim) error { return nil }, false},
			"nothing": {func(_ *testing.T, db *gorm.DB, c core.Claim) error {
				return db.Exec("DELETE FROM idempotency_record WHERE id = ?", c.ID[:]).Error
			}, true},
		} {
			t.Run(name, func(t *testing.T) {
				db := way.fresh("", false)(t)(t)
				store := newStore(t, db)
				c := command(core.Rollback)
				require.NoError(t, <-commit(t, store, c, 30*time.Second))
				require.NoError(t, db.Exec("CREATE TABLE kept AS SELECT * FROM idempotency_record").Error)
				require.NoError(t, db.Exec("DELETE FROM idempotency_record").Error)

				other := db.Begin()
				require.NoError(t, other.Exec("INSERT INTO idempotency_record SELECT * FROM kept").Error)
				require.NoError(t, ends.write(t, other, c))
				type begun struct {
					tx      core.Tx
					claimed core.Claimed
					err     error
				}
				waiting := make(chan begun, 1)
				go func() {
					tx, claimed, err := store.Begin(t.Context(), again(c))
					waiting <- begun{tx, claimed, err}
				}()
				sessions(t, db, 1, "wait_event_type = 'Lock'")
				require.NoError(t, other.Commit().Error)
				got := <-waiting
				require.NoError(t, got.err)
				require.Equal(t, ends.won, got.claimed.Won)
				if !ends.won {
					require.Equal(t, core.Completed, got.claimed.Record.State())
					return
				}
				before := countEffects(t, db)
				require.NoError(t, addEffect(got.tx.Bind(t.Context())))
				require.NoError(t, got.tx.Commit(t.Context(), refused(), true))
				rec, err := store.Find(t.Context(), c.ID)
				require.NoError(t, err)
				require.Equal(t, core.Completed, rec.State())
				require.Equal(t, refused().Answer.Status, rec.Answer.Status)
				require.Equal(t, before, countEffects(t, db))
			})
		}
	})
}
