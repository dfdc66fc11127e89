package gormstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// How two of the statements begin, which come first for a key that was not seen before, and for one that was.
const (
	insertRecord = `INSERT INTO "public".idempotency_record`
	lockClaim    = "SELECT pg_catalog.set_config('idem.locked', CASE WHEN pg_catalog.pg_try_advisory_xact_lock($1::bigint)"
	lockGuarded  = "SELECT pg_catalog.set_config('idem.locked', CASE WHEN pg_catalog.pg_try_advisory_xact_lock($4::bigint)"
	lookFirst    = "SELECT CASE WHEN pg_catalog.current_setting('transaction_read_only')"
	lockFirst    = "SELECT pg_catalog.pg_try_advisory_xact_lock($4::bigint)"
	asBegun      = "SELECT CAST(CASE WHEN pg_catalog.pg_backend_pid()"
)

// The server's own log says what a command costs, whatever GORM and database/sql add to the code's statements.
func TestStatements(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		url := migratedURL(t)
		read := pgtest.Statements(t, url)
		db := way.of(t, openPostgres(t, url, 4)) // opened after the log was switched on
		st, other := newStore(t, db), newStore(t, db)
		opened := []string{"BEGIN", lockFirst, lookFirst}
		claiming := []string{lockClaim, insertRecord} // one message, and so one transaction
		if way == wrapped {
			claiming = []string{"begin", lockGuarded, insertRecord, "commit"}
		}

		// The store asks once whether the server looks after clients that went away.
		for _, st := range []*gormstore.Store{st, other} {
			warm, _ := begin(t, st, command(store.Rollback))
			require.NoError(t, warm.Rollback())
		}
		read()

		parked, transacted := command(store.Park), command(store.Rollback)

		// CONTRACT M-6
		t.Run("a new command on Park is two writes", func(t *testing.T) {
			answered(t, st, parked)
			requireStatements(t, read(), append(claiming, `UPDATE "public".idempotency_record`)...)
		})

		// CONTRACT M-3
		t.Run("a replay on Park is one statement", func(t *testing.T) {
			claimed := try(st.Claim(t.Context(), again(parked))).ok(t)
			require.Equal(t, store.Completed, claimed.Record.State())
			requireStatements(t, read(), lookFirst)
		})

		t.Run("and two in another instance", func(t *testing.T) {
			for _, want := range [][]string{append(claiming, lookFirst), {lookFirst}} { // until that one has seen the key
				claimed := try(other.Claim(t.Context(), again(parked))).ok(t)
				require.Equal(t, store.Completed, claimed.Record.State())
				requireStatements(t, read(), want...)
			}
		})

		// CONTRACT X-0
		t.Run("a new command on Rollback is one transaction", func(t *testing.T) {
			tx, _ := beginRow(t, st, transacted)
			require.NoError(t, seal(t.Context(), tx, paid(), false))
			requireStatements(t, read(), slices.Concat(opened, []string{`INSERT INTO "effects"`, asBegun, insertRecord, "COMMIT"})...)
		})

		// CONTRACT X-0
		t.Run("a refusal on Rollback is recorded alone", func(t *testing.T) {
			tx, _ := beginRow(t, st, command(store.Rollback))
			require.NoError(t, seal(t.Context(), tx, refused(), true))
			requireStatements(t, read(), slices.Concat(opened, []string{`INSERT INTO "effects"`, asBegun, "ROLLBACK", "SELECT 1 / CASE WHEN pg_catalog.pg_try_advisory_xact_lock", insertRecord})...)
		})

		t.Run("a replay on Rollback is one statement", func(t *testing.T) {
			require.Equal(t, store.Completed, repeated(t, st, transacted).Record.State())
			requireStatements(t, read(), lookFirst)
		})

		t.Run("and a transaction in another instance", func(t *testing.T) {
			require.Equal(t, store.Completed, repeated(t, other, transacted).Record.State())
			var got []string
			eventually(t, "the replay's transaction has ended behind its answer", func() bool {
				got = append(got, read()...)
				return len(got) == len(opened)+1
			})
			requireStatements(t, got, slices.Concat(opened, []string{"ROLLBACK"})...)
		})

		t.Run("a transaction inside the attempt is a savepoint", func(t *testing.T) {
			tx, ctx := begin(t, st, command(store.Rollback))
			require.NoError(t, gormstore.Tx(ctx).Transaction(func(inner *gorm.DB) error {
				return inner.Create(&effect{Name: "inner"}).Error
			}))
			require.NoError(t, tx.Rollback())
			requireStatements(t, read(), slices.Concat(opened, []string{"SAVEPOINT", `INSERT INTO "effects"`, asBegun, "ROLLBACK"})...)
		})
	})
}

// A repeat that is refused costs what a replay costs: the record says why. Beside an attempt that has written nothing yet
// its lock says so.
//
// CONTRACT M-2, M-4, M-5
func TestStatementsOfRefusals(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		url := migratedURL(t)
		read := pgtest.Statements(t, url)
		db := way.of(t, openPostgres(t, url, 4))
		st := newStore(t, db)
		refuse := func(c store.Claim, want store.State) {
			t.Helper()
			c = again(c)
			c.Lean = true
			for range 2 {
				read()
				claim := st.Claim
				if c.Recovery != store.Park {
					claim = func(ctx context.Context, c store.Claim) (store.Claimed, error) {
						_, claimed, err := st.Begin(ctx, c)
						return claimed, err
					}
				}
				claimed := try(claim(t.Context(), c)).ok(t)
				require.Equal(t, want, claimed.Record.State())
				requireStatements(t, read(), lookFirst)
			}
		}

		park, resuming := command(store.Park), command(store.Resume)
		ticket := won(t, st, park)
		refuse(park, store.Running)
		require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Unknown}))
		refuse(park, store.Unknown)
		call := store.StepRecord{Name: "charge", Kind: store.ProviderStep}
		ticket = resumed(t, st, resuming, store.Seal{Start: &call})
		refuse(resuming, store.Running)
		require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Unknown}))
		refuse(resuming, store.Unknown)

		old := command(store.Park)
		answered(t, st, old)
		refuse(old, store.Completed)
		advance(t, db, store.DefaultRetention+time.Minute)
		gone := again(old)
		gone.Lean = true
		read()
		require.Equal(t, store.Expired, try(st.Claim(t.Context(), gone)).ok(t).Record.State())
		requireStatements(t, read(), lookFirst, lookFirst) // once, to find that the answer is no more
		refuse(old, store.Expired)

		running := command(store.Rollback)
		begin(t, newStore(t, openPostgres(t, url, 4)), running)
		for range 2 {
			read()
			require.True(t, repeated(t, st, running).Busy)
			var got []string
			eventually(t, "the look's transaction has ended behind its answer", func() bool {
				got = append(got, read()...)
				return len(got) == 4
			})
			requireStatements(t, got, "BEGIN", lockFirst, lookFirst, "ROLLBACK")
		}
	})
}

// requireStatements compares statements by how they begin, without what is put around a question (F-8).
func requireStatements(t *testing.T, got []string, want ...string) {
	t.Helper()
	require.Len(t, got, len(want), "%q", got)
	for i := range want {
		sent := strings.TrimPrefix(got[i], "SELECT answer.* FROM (")
		require.True(t, strings.HasPrefix(sent, want[i]), "statement %d is %q, not %q", i+1, got[i], want[i])
	}
}

func commandOf(c store.Claim) store.LoggedCommand {
	return store.LoggedCommand{ID: c.ID, Scope: c.Scope, Hash: c.Hash, Window: 10 * time.Minute, Keep: 72 * time.Hour}
}

// The server's own log says what logging a command costs, and its planner how it finds what came before.
func TestCommandIsLoggedInOneStatement(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	read := pgtest.Statements(t, url)
	db := openPostgres(t, url, 4)
	st := newStore(t, db)
	c := commandOf(command(store.Park))
	_, err := st.Find(t.Context(), c.ID, store.Viewer{All: true}) // the store's first statement finds the schema
	require.ErrorIs(t, err, store.ErrNotFound)
	read()
	for range 3 {
		require.NoError(t, err2(st.LogCommand(t.Context(), c)))
	}
	requireStatements(t, read(), "WITH c AS", "WITH c AS", "WITH c AS")

	require.NoError(t, db.Exec(`INSERT INTO idempotency_sighting
SELECT sha256(i::text::bytea), ?::bytea, 1, sha256(('command ' || i)::bytea), 1, 1 FROM generate_series(1, 2000) i`,
		c.Scope[:]).Error)
	require.NoError(t, db.Exec("VACUUM ANALYZE idempotency_sighting").Error)
	var plan []string
	require.NoError(t, db.Raw(`EXPLAIN SELECT e.id FROM idempotency_sighting e
WHERE e.scope = ? AND e.command_hash = ? AND e.seen_at > (SELECT extract(epoch FROM clock_timestamp())::bigint) - 10 AND e.id <> ?
ORDER BY e.seen_at DESC LIMIT 1`, c.Scope[:], c.Hash.Sum[:], c.ID[:]).Scan(&plan).Error)
	require.Contains(t, fmt.Sprint(plan), "Index Only Scan Backward using idempotency_sighting_command", strings.Join(plan, "\n"))
}
