package gormstore_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/gormstore/journal"
)

// users are what an app can have on a database: each can be asked whether the database will do, and refuses to work
// until then.
type users struct {
	store   *gormstore.Store
	inbox   *inbox.Inbox
	journal *journal.Journal
	db      *gorm.DB
}

func newUsers(t *testing.T, db *gorm.DB) users {
	t.Helper()
	return users{unasked(t, db), newInbox(t, db, stockInbox), newJournal(t, db), db}
}

// requireRefused checks who refuses the database, for what reason.
func (u users) requireRefused(t *testing.T, by, why string) {
	t.Helper()
	is := func(err error, who string) {
		t.Helper()
		if strings.Contains(by, who) {
			require.ErrorContains(t, err, why, who)
		} else {
			require.NoError(t, err, who)
		}
	}
	ctx := t.Context()
	tx, _, err := u.store.Begin(ctx, command(store.Rollback)) // an app that does not ask
	if err == nil {
		require.NoError(t, tx.Rollback())
	}
	is(err, "store")
	is(err2(u.store.Claim(ctx, command(store.Resume))), "store")
	is(err2(u.store.Claim(ctx, command(store.Park))), "store")
	is(u.store.Validate(ctx), "store")
	is(u.inbox.Validate(ctx), "inbox")
	is(u.inbox.Process(ctx, message(), func(*gorm.DB) error { return nil }), "inbox")
	is(u.journal.Validate(ctx), "journal")
	is(err2(u.journal.Begin(ctx, entryOf(t, "order-"+t.Name(), 1))), "journal")
	is(u.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return u.journal.Plan(tx, "plan-"+t.Name()) }), "journal")
}

// partitioned puts the records into partitions; that of even is missing.
var partitioned = []string{
	"ALTER TABLE idempotency_record RENAME TO whole",
	"CREATE TABLE idempotency_record (LIKE whole INCLUDING DEFAULTS, PRIMARY KEY (id)) PARTITION BY HASH (id)",
	"CREATE TABLE even PARTITION OF idempotency_record FOR VALUES WITH (MODULUS 2, REMAINDER 0) PARTITION BY HASH (id)",
	"CREATE TABLE odd PARTITION OF idempotency_record FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
}

// What would be forgotten is refused where it is made.
//
// CONTRACT F-2, F-5
func TestWhatForgetsIsRefused(t *testing.T) {
	t.Parallel()
	const all = "store inbox journal"
	type testCase struct {
		set        []string // statements, on the server
		parameters string   // of the connections
		by, why    string
	}
	cases := map[string]testCase{
		"nothing":             {},
		"a partitioned table": {set: append(slices.Clone(partitioned), "CREATE TABLE deep PARTITION OF even FOR VALUES WITH (MODULUS 1, REMAINDER 0)")},
		"an unlogged partition": {
			set: append(slices.Clone(partitioned), "CREATE UNLOGGED TABLE deep PARTITION OF even FOR VALUES WITH (MODULUS 1, REMAINDER 0)"),
			by:  "store", why: "table deep is UNLOGGED",
		},
		"a view": {
			set: []string{"ALTER TABLE idempotency_intent RENAME TO intents",
				"CREATE VIEW idempotency_intent AS SELECT * FROM intents"},
			by: "store journal", why: "table idempotency_intent is no table of this database",
		},
		"synchronous_commit": {parameters: "&synchronous_commit=off", by: all, why: "synchronous_commit is off"},
		"a read-only server": {
			parameters: "&default_transaction_read_only=on", by: all, why: "default_transaction_read_only is on",
		},
	}
	for table, by := range map[string]string{
		"idempotency_record": "store", "idempotency_step": "store", "idempotency_setting": "store",
		"idempotency_settlement": "store", "idempotency_intent": "store journal", "processed_message": "store inbox",
	} {
		set := []string{"ALTER TABLE " + table + " SET UNLOGGED"}
		cases["unlogged "+table] = testCase{set: set, by: by, why: "table " + table + " is UNLOGGED"}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := migratedURL(t)
			admin := openPostgres(t, address, 2)
			execute(t, admin, c.set...)
			u := newUsers(t, openPostgres(t, address+c.parameters, 4))
			u.requireRefused(t, c.by, c.why)
		})
	}
}

// What an app has set on the connection that is asked says nothing about the others.
//
// CONTRACT F-5
func TestSettingsOfAConnectionDoNotCount(t *testing.T) {
	t.Parallel()
	address := migratedURL(t)
	db := openPostgres(t, address+"&synchronous_commit=off&default_transaction_read_only=on", 2)
	onAll(t, db, 2, "SET synchronous_commit = on; SET default_transaction_read_only = off")
	u := newUsers(t, db)
	u.requireRefused(t, "store inbox journal", "synchronous_commit is off")
	u.requireRefused(t, "store inbox journal", "default_transaction_read_only is on")
}

// CONTRACT F-5
func TestReadOnlySQLite(t *testing.T) {
	db := freshSQLite(t)(t)
	store := unasked(t, db)
	onAll(t, db, 15, "PRAGMA query_only = on")
	u := users{store, newInbox(t, db, stockInbox), newJournal(t, db), db}
	u.requireRefused(t, "store inbox journal", "query_only is on")
}

// leastRights are the grants of docs/database.md, by role: one for each table and right.
func leastRights(t *testing.T) map[string][]string {
	t.Helper()
	text := try(os.ReadFile("../docs/database.md")).ok(t)
	grants := map[string][]string{}
	for _, g := range regexp.MustCompile(`(?m)^GRANT (.*) ON (.*) TO (\w+);$`).FindAllStringSubmatch(string(text), -1) {
		for right := range strings.SplitSeq(g[1], ", ") {
			for table := range strings.SplitSeq(g[2], ", ") {
				grants[g[3]] = append(grants[g[3]], right+" ON "+table)
			}
		}
	}
	require.Len(t, grants, 4)
	return grants
}

// The rights of the docs are enough for the work, and every one of them is asked for at start.
//
// CONTRACT F-5
func TestLeastRights(t *testing.T) {
	t.Parallel()
	address := migratedURL(t)
	admin := openPostgres(t, address, 2)
	connect := func(t *testing.T, grants ...string) (db *gorm.DB, role string) {
		t.Helper()
		role = newRole(t, admin)
		execute(t, admin, "ALTER ROLE "+role+" LOGIN PASSWORD 'secret'",
			"GRANT USAGE ON SCHEMA "+currentSchema(t, admin)+" TO "+role)
		for _, grant := range grants {
			execute(t, admin, "GRANT "+grant+" TO "+role)
		}
		u := try(url.Parse(address)).ok(t)
		u.User = url.UserPassword(role, "secret")
		return openPostgres(t, u.String(), 4), role
	}
	work := map[string]func(t *testing.T, db *gorm.DB){
		"api": func(t *testing.T, db *gorm.DB) {
			st := newStore(t, db)
			require.NoError(t, st.Validate(t.Context()))
			tx, _ := begin(t, st, command(store.Rollback))
			require.NoError(t, seal(t.Context(), tx, paid(), false))
			parked := try(st.Claim(t.Context(), command(store.Park))).ok(t)
			require.NoError(t, st.Refer(t.Context(), parked.Record.ID, store.Realm{}, store.Ref{Name: "charge", Value: "ch_1"}))
			require.NoError(t, st.End(t.Context(), parked.Record.Ticket, store.Ending{State: store.Completed, Answer: paid()}))
			given := command(store.Park)
			require.NoError(t, st.Release(t.Context(), []store.Ticket{{ID: given.ID, Owner: given.Owner}}))
			short := command(store.Park)
			short.Lease, short.Deadline = time.Microsecond, time.Microsecond
			unknown := try(st.Claim(t.Context(), short)).ok(t)
			decision := store.Settlement{ID: short.ID, Fence: unknown.Record.Fence, Who: "w", Why: "y"}
			require.NoError(t, err2(st.Settle(t.Context(), decision)))
			seen := command(store.Park)
			require.NoError(t, err2(st.LogCommand(t.Context(), commandOf(seen))))
			step := store.StepRecord{Name: "charge", Kind: store.ProviderStep}
			segments, _ := resume(t, st, command(store.Resume))
			for _, s := range []store.Seal{{Start: &step}, {Steps: []store.StepRecord{step}}, {Answer: new(paid())}} {
				require.NoError(t, err2(segments.Seal(t.Context(), s)))
			}
			require.NoError(t, err2(st.List(t.Context(), store.Query{Unknown: true, Limit: 10})))
			require.NoError(t, err2(st.Sweep(t.Context(), 10, store.Window{})))
		},
		"consumer": func(t *testing.T, db *gorm.DB) {
			box := newInbox(t, db, stockInbox)
			require.NoError(t, box.Validate(t.Context()))
			m, processed := message(), 0
			for range 2 { // the second is a duplicate
				require.NoError(t, box.Process(t.Context(), m, func(*gorm.DB) error { processed++; return nil }))
			}
			require.Equal(t, 1, processed)
			m.Published = time.Now().Add(-2 * inbox.DefaultKeep)
			m.ID = "too old"
			require.ErrorIs(t, box.Process(t.Context(), m, never(t)), inbox.ErrTooOld)
		},
		"client": func(t *testing.T, db *gorm.DB) {
			j := newJournal(t, db)
			require.NoError(t, j.Validate(t.Context()))
			require.NoError(t, err2(j.Begin(t.Context(), entryOf(t, "order-1", 1))))
			require.NoError(t, j.End(t.Context(), "order-1"))
			require.NoError(t, err2(j.Pending(t.Context(), "", 10)))
			require.NoError(t, err2(j.Sweep(t.Context(), journal.MinKeep, 10)))
		},
	}
	validate := map[string]func(ctx context.Context, u users) error{
		"api":      func(ctx context.Context, u users) error { return u.store.Validate(ctx) },
		"consumer": func(ctx context.Context, u users) error { return u.inbox.Validate(ctx) },
		"client":   func(ctx context.Context, u users) error { return u.journal.Validate(ctx) },
	}
	for user, grants := range leastRights(t) {
		if user == "operator" {
			continue // who reads, and does nothing that could be tried
		}
		t.Run(user, func(t *testing.T) {
			db, _ := connect(t, grants...)
			work[user](t, db)
		})
		t.Run(user+" with less", func(t *testing.T) {
			db, role := connect(t, grants...)
			u := newUsers(t, db)
			for _, grant := range grants {
				if grant == "DELETE ON idempotency_intent" {
					continue // Sweep's
				}
				execute(t, admin, "REVOKE "+grant+" FROM "+role)
				right, table, _ := strings.Cut(grant, " ON ")
				require.ErrorContains(t, validate[user](t.Context(), u), "the role "+role+" lacks "+right+" on "+table)
				execute(t, admin, "GRANT "+grant+" TO "+role)
			}
			require.NoError(t, validate[user](t.Context(), u))
			_, table, _ := strings.Cut(grants[0], " ON ")
			execute(t, admin, "ALTER TABLE "+table+" ENABLE ROW LEVEL SECURITY")
			require.ErrorContains(t, validate[user](t.Context(), u), "table "+table+" hides rows from this role")
			execute(t, admin, "ALTER TABLE "+table+" DISABLE ROW LEVEL SECURITY")
			require.NoError(t, validate[user](t.Context(), u))
		})
	}
}

// The slots and the watching of connections that pass nothing are made for the limit that New saw.
//
// CONTRACT F-3
func TestLimitThatIsChangedAfterNew(t *testing.T) {
	db := parallelPostgres(t)
	pool := try(db.DB()).ok(t)
	for _, limits := range [][2]int{{0, 4}, {4, 0}, {4, 3}, {4, 9}} {
		pool.SetMaxOpenConns(limits[0])
		store := newStore(t, db)
		require.NoError(t, store.Validate(t.Context()))
		pool.SetMaxOpenConns(limits[1])
		require.ErrorContains(t, store.Validate(t.Context()), fmt.Sprintf("was %d then, and is %d now", limits[0], limits[1]))
	}
}
