package gormstore_test

import (
	"context"
	"crypto/rand"
	"net/http"
	neturl "net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/stretchr/testify/require"
)

// onWrite is a trigger on PostgreSQL.
func onWrite(when, table, body string) []string {
	name := "t_" + strings.ToLower(rand.Text())
	return []string{
		"CREATE FUNCTION " + name + "() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + body + " END $$",
		"CREATE TRIGGER " + name + " " + when + " ON " + table + " FOR EACH ROW EXECUTE FUNCTION " + name + "()",
	}
}

// What does not keep the rows that the library writes is found before the first handler runs, and says which statement and
// why. Nothing stays of the test itself.
//
// CONTRACT F-8
func TestWhatAltersRowsIsRefused(t *testing.T) {
	t.Parallel()
	const before = "BEFORE INSERT OR UPDATE"
	for name, c := range map[string]struct {
		set []string
		why []string
	}{
		"a trigger eats the record": {
			set: onWrite("BEFORE INSERT", "idempotency_record", "RETURN NULL;"), why: []string{"recordAnswer"},
		},
		"a trigger eats the answer": {
			set: onWrite("BEFORE UPDATE", "idempotency_record", "IF NEW.state = 2 THEN RETURN NULL; END IF; RETURN NEW;"),
			why: []string{"sealAnswer"},
		},
		"a trigger changes the answer": {
			set: onWrite(before, "idempotency_record", "NEW.status := CASE NEW.status WHEN 0 THEN 0 ELSE 202 END; RETURN NEW;"),
			why: []string{"Answer", "recordAnswer"},
		},
		"a trigger ends the retention": {
			set: onWrite(before, "idempotency_record", "NEW.expires_at := NEW.created_at; RETURN NEW;"),
			why: []string{"ExpiresAt", "recordAnswer"},
		},
		"a trigger takes the owner of a takeover": {
			set: onWrite("BEFORE UPDATE", "idempotency_record", "NEW.owner := OLD.owner; RETURN NEW;"), why: []string{"takeOver"},
		},
		"a trigger eats a step": {
			set: onWrite("BEFORE INSERT", "idempotency_step", "RETURN NULL;"), why: []string{"putSteps"},
		},
		"a trigger changes the result of a step": {
			set: onWrite(before, "idempotency_step", "NEW.result := NULL; RETURN NEW;"), why: []string{"putSteps"},
		},
		"a trigger that raises": {
			set: onWrite("AFTER INSERT", "idempotency_record", "RAISE 'audited out';"), why: []string{"recordAnswer", "audited out"},
		},
		"a constraint that is deferred": {
			set: []string{"CREATE TABLE routes (route text PRIMARY KEY)", "ALTER TABLE idempotency_record ADD CONSTRAINT of_route " +
				"FOREIGN KEY (route) REFERENCES routes DEFERRABLE INITIALLY DEFERRED"},
			why: []string{"recordAnswer", "of_route"},
		},
		"a rule": {
			set: []string{"CREATE RULE eat AS ON INSERT TO idempotency_step DO INSTEAD NOTHING"}, why: []string{"putSteps"},
		},
		"a column that this release does not write": {
			set: []string{"ALTER TABLE idempotency_record ADD shard text NOT NULL"}, why: []string{"recordAnswer", "shard"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newPostgres(t, 4)
			execute(t, db, c.set...)
			st := unasked(t, db)
			for _, r := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
				answer := serve(t, newModule(t, st, core.Policy{Recovery: r}), rand.Text(), runsNever(t))
				require.Equal(t, "store_unavailable", answer.Header().Get("Idempotency-Problem"))
			}
			_, err := st.Claim(t.Context(), command(store.Park))
			require.ErrorIs(t, err, store.ErrUnfit)
			for _, why := range c.why {
				require.ErrorContains(t, err, why)
			}
			require.ErrorContains(t, st.Validate(t.Context()), c.why[0])
			require.ErrorContains(t, gormstore.Audit(t.Context(), db), c.why[0])
			require.Zero(t, query[int](t, db, "SELECT count(*) FROM idempotency_record"), "no claim was sent, so none is taken back")
		})
	}
}

func runsNever(t *testing.T) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") })
}

// CONTRACT F-8
func TestWhatAltersRowsIsRefusedOnSQLite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ trigger, why string }{
		"eats the record": {
			"BEFORE INSERT ON idempotency_record BEGIN SELECT RAISE(IGNORE); END", "recordAnswer",
		},
		"changes the answer": {
			"AFTER UPDATE OF status ON idempotency_record WHEN NEW.status NOT IN (0, 202) BEGIN " +
				"UPDATE idempotency_record SET status = 202 WHERE id = NEW.id; END", "Answer",
		},
		"eats a step":     {"BEFORE INSERT ON idempotency_step BEGIN SELECT RAISE(IGNORE); END", "putSteps"},
		"that raises":     {"AFTER INSERT ON idempotency_record BEGIN SELECT RAISE(ABORT, 'audited out'); END", "audited out"},
		"that rolls back": {"AFTER INSERT ON idempotency_record BEGIN SELECT RAISE(ROLLBACK, 'audited out'); END", "audited out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := freshSQLite(t)(t)
			execute(t, db, "CREATE TRIGGER altering "+c.trigger)
			st := unasked(t, db)
			for _, r := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
				answer := serve(t, newModule(t, st, core.Policy{Recovery: r}), rand.Text(), runsNever(t))
				require.Equal(t, "store_unavailable", answer.Header().Get("Idempotency-Problem"))
			}
			_, err := st.Claim(t.Context(), command(store.Park))
			require.ErrorIs(t, err, store.ErrUnfit)
			require.ErrorContains(t, err, c.why)
			require.ErrorContains(t, st.Validate(t.Context()), c.why)
			execute(t, db, "DROP TRIGGER altering")
			require.Zero(t, query[int](t, db, "SELECT count(*) FROM idempotency_record"))
			require.ErrorContains(t, err2(st.Claim(t.Context(), command(store.Park))), c.why, "it is tried again in a minute")
			require.NoError(t, st.Validate(t.Context()), "and by Validate at once")
			requireClaims(t, st)
		})
	}
}

// requireClaims checks that the store is in use.
func requireClaims(t *testing.T, st *gormstore.Store) {
	t.Helper()
	require.NoError(t, err2(st.Claim(t.Context(), command(store.Park))))
	for _, r := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
		paid := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
		require.Equal(t, http.StatusCreated, serve(t, newModule(t, st, core.Policy{Recovery: r}), rand.Text(), paid).Code)
	}
}

// A marker or an intent that is not kept as it was written makes a message or a command new.
//
// CONTRACT F-8, F-5
func TestWhatAltersMarkersAndIntentsIsRefused(t *testing.T) {
	t.Parallel()
	const before = "BEFORE INSERT OR UPDATE"
	for name, c := range map[string]struct {
		set     []string
		by, why string
	}{
		"a marker under another id": {
			set: onWrite(before, "processed_message", "NEW.message_id := NEW.message_id || '!'; RETURN NEW;"),
			by:  "inbox", why: "mark",
		},
		"a marker that is eaten": {
			set: onWrite("BEFORE INSERT", "processed_message", "RETURN NULL;"), by: "inbox", why: "mark",
		},
		"an intent under another name": {
			set: onWrite(before, "idempotency_intent", "NEW.intent := lower(NEW.intent); RETURN NEW;"), by: "journal", why: "beginIntent",
		},
		"an intent with another key": {
			set: onWrite(before, "idempotency_intent", "NEW.idempotency_key := md5(NEW.idempotency_key); RETURN NEW;"),
			by:  "journal", why: "beginIntent",
		},
		"an intent that does not end": {
			set: onWrite("BEFORE UPDATE", "idempotency_intent", "NEW.ended_at := NULL; RETURN NEW;"), by: "journal", why: "endIntent",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newPostgres(t, 4)
			execute(t, db, c.set...)
			newUsers(t, db).requireRefused(t, c.by, c.why)
		})
	}
}

// What may pass by itself is asked for again by the next claim.
//
// CONTRACT F-8, F-1
func TestSelfTestIsTriedAgain(t *testing.T) {
	t.Parallel()
	soon := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	t.Run("a table that is locked", func(t *testing.T) {
		t.Parallel()
		db := newPostgres(t, 4)
		st := unasked(t, db)
		lock := opened(t, db)
		execute(t, lock, "LOCK TABLE idempotency_record")
		for range 2 {
			_, err := st.Claim(soon(t), command(store.Park))
			require.ErrorIs(t, err, store.ErrUnfit)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		sessions(t, db, 1, "wait_event_type = 'Lock'") // all claims share one try
		require.NoError(t, lock.Rollback().Error)
		requireClaims(t, st)
	})
	t.Run("a server that takes no writes", func(t *testing.T) {
		t.Parallel()
		url := migratedURL(t)
		admin := openPostgres(t, url, 2)
		role := newRole(t, admin)
		execute(t, admin, "GRANT USAGE ON SCHEMA "+currentSchema(t, admin)+" TO "+role,
			"GRANT ALL ON ALL TABLES IN SCHEMA "+currentSchema(t, admin)+" TO "+role,
			"ALTER ROLE "+role+" LOGIN PASSWORD 'secret'", "ALTER ROLE "+role+" SET default_transaction_read_only = on")
		address := try(neturl.Parse(url)).ok(t)
		address.User = neturl.UserPassword(role, "secret")
		db := openPostgres(t, address.String(), 4)
		try(db.DB()).ok(t).SetMaxIdleConns(0) // each claim gets a connection of its own
		st := unasked(t, db)
		_, err := st.Claim(t.Context(), command(store.Park))
		require.ErrorIs(t, err, store.ErrUnfit)
		require.ErrorContains(t, err, "default_transaction_read_only is on")
		execute(t, admin, "ALTER ROLE "+role+" RESET default_transaction_read_only")
		requireClaims(t, st)
	})
	t.Run("a connection that is cut", func(t *testing.T) {
		t.Parallel()
		p := newProxy(t, migratedURL(t))
		for left := int32(1); left < 60; left += 4 { // messages to the server
			var sent atomic.Int32
			pass := filter(func(toServer bool, chunk []byte) (int, bool) {
				return len(chunk), toServer && sent.Add(1) == left
			})
			p.filter.Store(nil)
			st := unasked(t, openPostgres(t, p.url, 4))
			p.filter.Store(&pass)
			if _, err := st.Claim(t.Context(), command(store.Park)); err != nil {
				require.ErrorIs(t, err, store.ErrUnfit)
			}
			requireClaims(t, st)
		}
	})
}

// CONTRACT F-8
func TestSelfTestOfManyStoresAtOnce(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	errs := make(chan error)
	for range 8 {
		st := unasked(t, openPostgres(t, url, 2))
		for range 4 {
			go func() { errs <- err2(st.Claim(t.Context(), command(store.Park))) }()
		}
	}
	for range 8 * 4 {
		require.NoError(t, <-errs)
	}
}
