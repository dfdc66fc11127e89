package gormstore_test

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/journal"
	"github.com/auth19/idem/internal/pgtest"
)

// What was confirmed outlives a crash of the server, whatever the handler has done to its transaction's
// synchronous_commit.
//
// CONTRACT X-9, F-2
func TestHandlersDoNotWeakenTheCommit(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t, "wal_writer_delay=10s", "checkpoint_timeout=1h", "autovacuum=off")
	url := cluster.URL()
	migrate(t, openPostgres(t, url, 2))
	cluster.Exec(`CREATE FUNCTION weaken() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NEW; END $$`,
		"CREATE TRIGGER weaken BEFORE INSERT ON effects FOR EACH ROW WHEN (NEW.name = 'weaken') EXECUTE FUNCTION weaken()")
	for _, weaken := range []string{
		"SET LOCAL synchronous_commit = off", "SELECT set_config('synchronous_commit', 'off', true)",
		"DO $$ BEGIN PERFORM set_config('synchronous_commit', 'off', false); END $$", "SELECT 'before the attempt'", "INSERT INTO effects (name) VALUES ('weaken')",
	} {
		for name, run := range attempts {
			db := openPostgres(t, url, 4)
			before := countEffects(t, db)
			var first []func()
			if strings.Contains(weaken, "before") {
				if name == "message" {
					continue // an inbox refuses such a connection
				}
				first = append(first, func() { onAll(t, db, 4, "SET synchronous_commit = off") })
			}
			require.NoError(t, run(t, db, func(tx *gorm.DB) error {
				require.NoError(t, stock(tx))
				return tx.Exec(weaken).Error
			}, first...), "%s: %s", name, weaken)
			cluster.Stop(pgtest.Immediate)
			cluster.Start()
			db = openPostgres(t, cluster.URL(), 2)
			require.Greater(t, countEffects(t, db), before, "%s: %s: a confirmed row is lost", name, weaken)
		}
	}
}

// A handler may take another role, or another search path, for its own rows: the answer is recorded as the app.
//
// CONTRACT X-9
func TestHandlersMayChangeTheirRole(t *testing.T) {
	t.Parallel()
	open := freshPostgres("", false)(t)
	db := open(t)
	role, schema := newRole(t, db), currentSchema(t, db)
	execute(t, db, "GRANT USAGE ON SCHEMA "+schema+" TO "+role, "GRANT INSERT, SELECT ON effects TO "+role,
		"GRANT USAGE ON SEQUENCE effects_id_seq TO "+role)
	execute(t, db, become)
	hideTables(t, db)
	for _, change := range []string{
		"SET LOCAL ROLE " + role, "SET LOCAL SESSION AUTHORIZATION " + role,
		"SELECT set_config('role', '" + role + "', true)", "SELECT become('" + role + "')", "DO $$ BEGIN SET LOCAL ROLE " + role + "; END $$",
		"SET LOCAL search_path = pg_catalog",
	} {
		for name, run := range attempts {
			before := countEffects(t, db)
			require.NoError(t, run(t, open(t), func(tx *gorm.DB) error {
				require.NoError(t, stock(tx))
				return tx.Exec(change).Error
			}), "%s: %s", name, change)
			require.Equal(t, before+1, countEffects(t, db), "%s: %s", name, change)
		}
	}
}

// become is a function that takes a role.
const become = `CREATE FUNCTION become(name text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('role', name, true) $$`

// A change that nobody can see in the handler's statements, here by a trigger, ends in a rollback, never in a lost answer.
//
// CONTRACT X-9
func TestUnseenChangeOfRoleRollsBack(t *testing.T) {
	t.Parallel()
	open := freshPostgres("", false)(t)
	db := open(t)
	role := newRole(t, db)
	execute(t, db, become, becoming(role))
	for _, name := range []string{"attempt", "step", "step behind a call"} {
		require.ErrorContains(t, attempts[name](t, open(t), func(tx *gorm.DB) error {
			require.NoError(t, stock(tx))
			return tx.Exec("INSERT INTO effects (name) VALUES ('become')").Error
		}), "permission denied", name)
		require.Zero(t, countEffects(t, db))
	}
}

// becoming is a trigger by which a row takes a role.
func becoming(role string) string {
	return `CREATE FUNCTION becoming() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM become('` + role + `'); RETURN NEW; END $$;
		CREATE TRIGGER becoming AFTER INSERT ON effects FOR EACH ROW WHEN (NEW.name = 'become') EXECUTE FUNCTION becoming()`
}

// hideTables moves the library's tables into a schema in which other roles have no right: they may not even prepare the
// library's statements.
func hideTables(t *testing.T, db *gorm.DB) {
	t.Helper()
	require.NoError(t, db.Exec(`DO $$ DECLARE name text; BEGIN
		CREATE SCHEMA library;
		FOR name IN SELECT tablename FROM pg_tables WHERE tablename ~ '^(idempotency|processed)_' LOOP
			EXECUTE format('ALTER TABLE %I SET SCHEMA library', name);
		END LOOP;
		EXECUTE format('ALTER DATABASE %I SET search_path = %I, library', current_database(), current_schema());
	END $$`).Error)
}

// A refusal undoes the handler's rows, and with them the role that nobody has seen it take: the answer is recorded. A driver
// prepares what it has not seen before it sends the first statement, and may do so only after that.
//
// CONTRACT
func TestRefusalUndoesAnUnseenRole(t *testing.T) {
	t.Parallel()
	open := freshPostgres("", false)(t)
	db := open(t)
	role := newRole(t, db)
	execute(t, db, become, becoming(role))
	hideTables(t, db)
	for _, way := range []way{overPgx, wrapped} {
		st := newStore(t, way.of(t, open(t)))
		c := command(store.Rollback)
		tx, ctx := beginRow(t, st, c)
		require.NoError(t, gormstore.Tx(ctx).Exec("INSERT INTO effects (name) VALUES ('become')").Error)
		require.NoError(t, seal(t.Context(), tx, refused(), true))
		requireCompleted(t, st, c, refused())
		require.Zero(t, countEffects(t, db))
	}
}

func currentSchema(t *testing.T, db *gorm.DB) (name string) {
	t.Helper()
	require.NoError(t, db.Raw("SELECT current_schema()").Scan(&name).Error)
	return name
}

// What the library confirms by a statement of its own commits durably, whatever an app has left on the connection.
//
// CONTRACT F-5, F-2
func TestWeakSessionsCommitDurably(t *testing.T) {
	db := parallelPostgres(t)
	require.NoError(t, db.Exec(`CREATE TABLE commits (tab text, setting text)`).Error)
	require.NoError(t, db.Exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO commits VALUES (TG_TABLE_NAME, current_setting('synchronous_commit')); RETURN NULL; END $$`).Error)
	tables := []string{"idempotency_record", "idempotency_step", "idempotency_intent"}
	for _, table := range append(tables, "idempotency_setting") {
		require.NoError(t, db.Exec("CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE ON "+table+
			" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()").Error)
	}
	st := newStore(t, db)
	require.NoError(t, st.Validate(t.Context()))
	j := try(journal.New(db)).ok(t)
	connections := db.Statement.ConnPool.(*sql.DB).Stats().MaxOpenConnections
	onAll(t, db, connections, "SET synchronous_commit = off")

	ctx := t.Context()
	claim := func(c store.Claim) store.Ticket {
		claimed := try(st.Claim(ctx, c)).ok(t)
		require.True(t, claimed.Won)
		return claimed.Record.Ticket
	}
	require.NoError(t, st.End(ctx, claim(command(store.Park)), store.Ending{State: store.Completed, Answer: paid()}))
	require.NoError(t, st.End(ctx, claim(command(store.Park)), store.Ending{State: store.Unknown}))
	call := store.StepRecord{Name: "charge", Kind: store.ProviderStep}
	segments, _ := resume(t, st, command(store.Resume))
	for _, s := range []store.Seal{{Start: &call}, {Steps: []store.StepRecord{call}}, {Answer: new(paid())}} {
		require.NoError(t, err2(segments.Seal(ctx, s)))
	}
	require.NoError(t, err2(j.Begin(ctx, intents.Entry{Intent: "order-1", Key: intents.NewKey()})))
	tx, claimed, err := st.Begin(ctx, command(store.Rollback))
	require.NoError(t, err)
	require.True(t, claimed.Won)
	require.NoError(t, seal(ctx, tx, paid(), false))
	tx, claimed, err = st.Begin(ctx, command(store.Rollback))
	require.NoError(t, err)
	require.True(t, claimed.Won)
	require.NoError(t, seal(ctx, tx, refused(), true))

	late := command(store.Park)
	now := time.Now()
	late.Key = store.KeyTime{Made: now.Add(-time.Hour), Timed: true,
		Valid: store.Window{From: now.Add(-48 * time.Hour), To: now.Add(-30 * time.Minute)}}
	require.True(t, try(st.Claim(ctx, late)).ok(t).KeyRefused)
	segments, half := resume(t, st, command(store.Resume))
	require.NoError(t, err2(segments.Seal(ctx, store.Seal{Start: &call})))
	require.NoError(t, segments.Rollback())
	require.ElementsMatch(t, tables, query[[]string](t, db, "SELECT DISTINCT tab FROM commits ORDER BY tab"))
	const weak = "SELECT tab FROM commits WHERE setting = 'off'"
	require.Empty(t, query[[]string](t, db, weak))

	advance(t, db, 2*deadline) // over a weak session
	require.NoError(t, db.Exec("DELETE FROM commits").Error)
	givenUp := store.Intervention{ID: half.ID, Fence: half.Fence, GiveUp: true, Who: "operator", Why: "it never ends"}
	require.NoError(t, err2(st.Intervene(ctx, givenUp)))
	settled := try(st.Settle(ctx, store.Settlement{ID: half.ID, Fence: half.Fence, Who: "operator", Why: "it was not applied"})).ok(t)
	require.Equal(t, store.Free, settled.Stored)
	erased := command(store.Rollback)
	tx, _ = beginRow(t, st, erased)
	require.NoError(t, seal(ctx, tx, paid(), false))
	require.NotZero(t, try(st.Erase(ctx, erased.Scope, store.ID{}, 10)).ok(t).Records)
	marked := command(store.Park)
	require.NoError(t, err2(st.Mark(ctx, store.Marking{IDs: []store.ID{marked.ID}, Realm: marked.Realm, Who: "operator", Why: "it was lost"})))
	require.NoError(t, st.Adopt(ctx, marked))
	require.Equal(t, marked.Route, requireState(t, st, marked, store.Unknown).Route)
	before := store.Refusal{Before: time.Now(), Who: "operator", Why: "they are old"}
	require.NoError(t, st.RefuseKeysBefore(ctx, marked.Realm[:8], before))
	require.Subset(t, query[[]string](t, db, "SELECT DISTINCT tab FROM commits"), []string{"idempotency_record", "idempotency_setting"})
	require.Empty(t, query[[]string](t, db, weak))
}

// What a handler has changed is as it was by the time of COMMIT, where constraints and triggers that were deferred run: on
// connections that begin with a role and a search path of their own, too.
//
// CONTRACT X-9
func TestRoleAndSearchPathAreRestored(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	admin := openPostgres(t, url, 2)
	app, teller, schema := newRole(t, admin), newRole(t, admin), currentSchema(t, admin)
	execute(t, admin,
		"CREATE TABLE ends (tab text, role text, search_path text)",
		"GRANT USAGE ON SCHEMA "+schema+" TO "+app+", "+teller, "GRANT INSERT ON ends TO "+teller,
		"GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO "+app, "GRANT ALL ON ALL SEQUENCES IN SCHEMA "+schema+" TO "+app,
		"CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO "+schema+
			".ends VALUES (TG_TABLE_NAME, current_user, current_setting('search_path')); RETURN NULL; END $$",
	)
	tables := map[string]string{"attempt": "idempotency_record", "pipelined attempt": "idempotency_record",
		"step": "idempotency_step", "step behind a call": "idempotency_step", "message": "processed_message"}
	for _, table := range []string{"idempotency_record", "idempotency_step", "processed_message"} {
		require.NoError(t, admin.Exec("CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE ON "+table+
			" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()").Error)
	}
	path := schema + ", pg_temp"
	begun := "&role=" + app + "&search_path=" + strings.ReplaceAll(path, " ", "%20")
	for _, change := range []string{"SET LOCAL ROLE " + teller, "SET LOCAL search_path = pg_catalog"} {
		for name, run := range attempts {
			require.NoError(t, admin.Exec("DELETE FROM ends").Error)
			require.NoError(t, run(t, openPostgres(t, url+begun, 4), func(tx *gorm.DB) error {
				require.NoError(t, stock(tx))
				return tx.Exec(change).Error
			}), "%s: %s", name, change)
			var ends []struct{ Role, SearchPath string }
			require.NoError(t, admin.Raw("SELECT DISTINCT role, search_path FROM ends WHERE tab = ?", tables[name]).Scan(&ends).Error)
			require.Equal(t, []struct{ Role, SearchPath string }{{app, path}}, ends, "%s: %s", name, change)
		}
	}
}

// A handler may take another encoding for what it reads and writes: the names of its steps are found again.
//
// CONTRACT
func TestHandlersMayChangeTheirEncoding(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		for _, simple := range []bool{false, true} {
			module := newModule(t, newStore(t, way.fresh("", simple)(t)(t)), core.Policy{Recovery: core.Resume})
			key, booked, status := rand.Text(), 0, http.StatusInternalServerError
			book := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.NoError(t, gormstore.StepDo(r.Context(), "Bücher führen", func(tx *gorm.DB) error {
					booked++
					return errors.Join(stock(tx), tx.Exec("SET LOCAL client_encoding = 'LATIN1'").Error)
				}))
				require.NoError(t, aCall(r.Context(), "zählen"))
				w.WriteHeader(status)
			})
			require.Equal(t, status, serve(t, module, key, book).Code)
			status = http.StatusCreated
			require.Equal(t, status, serve(t, module, key, book).Code)
			require.Equal(t, 1, booked)
		}
	})
}
