package gormstore_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	modernc "modernc.org/sqlite"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
	"github.com/auth19/idem/internal/testhost"
)

func TestMain(m *testing.M) {
	testhost.RunFour()
	// GORM's prepared statements are never let go.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// effect is a business row.
type effect struct {
	ID   uint
	Name string
}

// database is one way to run the store.
type database struct {
	name   string
	shared bool                                                  // several processes may use it
	fresh  func(t *testing.T) (open func(t *testing.T) *gorm.DB) // an empty, migrated database
}

// databases are all the ways the store is promised to work in.
var databases = []database{
	{name: "postgres", shared: true, fresh: freshPostgres("", false)},
	{name: "postgres simple protocol", shared: true, fresh: freshPostgres("", true)},
	{name: "postgres serializable", shared: true, fresh: freshPostgres("&default_transaction_isolation=serializable", false)},
	{name: "sqlite", fresh: freshSQLite},
}

// everyWay is databases, and those whose driver is not pgx itself.
var everyWay = append(slices.Clone(databases),
	database{name: "postgres wrapped", shared: true, fresh: wrapped.fresh("", false)},
)

func freshPostgres(parameters string, simple bool) func(t *testing.T) func(t *testing.T) *gorm.DB {
	return func(t *testing.T) func(t *testing.T) *gorm.DB {
		url := pgtest.URL(t) + parameters
		open := func(t *testing.T) *gorm.DB {
			return openDB(t, postgres.New(postgres.Config{DSN: url, PreferSimpleProtocol: simple}), 16)
		}
		migrate(t, open(t))
		return open
	}
}

func freshSQLite(t *testing.T) func(t *testing.T) *gorm.DB {
	address := sqliteAddress(t)
	open := func(t *testing.T) *gorm.DB { return openDB(t, sqlite.Open(address), 16) }
	migrate(t, open(t))
	return open
}

// sqliteAddress is that of a new file.
func sqliteAddress(t *testing.T) string {
	return "file:" + filepath.Join(t.TempDir(), "test.db") +
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)&_pragma=foreign_keys(on)"
}

// sqliteWith is a new file whose statements can call a function of the test. The function gets the statement's connection.
func sqliteWith(t *testing.T, name string,
	function func(conn driver.ExecerContext, args []driver.Value) (driver.Value, error),
) *gorm.DB {
	t.Helper()
	pool := sql.OpenDB(calling{sqliteAddress(t), name, function})
	db := openDB(t, sqlite.New(sqlite.Config{Conn: pool}), 16)
	migrate(t, db)
	return db
}

// calling opens connections whose statements can call a function.
type calling struct {
	address, name string
	function      func(conn driver.ExecerContext, args []driver.Value) (driver.Value, error)
}

// Connect uses a driver of its own for each connection: so the function knows which one calls it.
func (c calling) Connect(context.Context) (driver.Conn, error) {
	var d modernc.Driver
	var conn driver.Conn
	err := d.RegisterScalarFunction(c.name, -1, func(_ *modernc.FunctionContext, args []driver.Value) (driver.Value, error) {
		return c.function(conn.(driver.ExecerContext), args)
	})
	if err == nil {
		conn, err = d.Open(c.address)
	}
	return conn, err
}

func (calling) Driver() driver.Driver { return &modernc.Driver{} }

// openDB opens a database as an app might, with everything that GORM does by default.
func openDB(t *testing.T, dialector gorm.Dialector, connections int) *gorm.DB {
	t.Helper()
	db := try(gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})).ok(t)
	pool := try(db.DB()).ok(t)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return db
}

func migrate(t *testing.T, db *gorm.DB) {
	t.Helper()
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.AutoMigrate(&effect{}))
}

// newStore is a store of an app that has asked at start whether the database will do: no first claim has to wait for it.
func newStore(t *testing.T, db *gorm.DB, options ...gormstore.Option) *gormstore.Store {
	t.Helper()
	return asked(t, unasked(t, db, options...))
}

// asked has asked whether the database will do.
func asked(t *testing.T, store *gormstore.Store) *gormstore.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_ = store.Validate(ctx)
	return store
}

// unasked is a store of an app that has not.
func unasked(t *testing.T, db *gorm.DB, options ...gormstore.Option) *gormstore.Store {
	t.Helper()
	store := try(gormstore.New(db, options...)).ok(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// advance moves all timestamps of all records d into the past.
func advance(t *testing.T, db *gorm.DB, d time.Duration) {
	t.Helper()
	moveBack(t, db, d, "idempotency_record", "created_at", "lease_until", "deadline_at", "expires_at", "purge_at", "due_at")
}

// moveBack moves times of all rows of a table d into the past.
func moveBack(t *testing.T, db *gorm.DB, d time.Duration, table string, columns ...string) {
	t.Helper()
	for i, column := range columns {
		columns[i] = fmt.Sprintf("%s = %[1]s - %d", column, d.Microseconds())
	}
	execute(t, db, "UPDATE "+table+" SET "+strings.Join(columns, ", "))
}

func countEffects(t *testing.T, db *gorm.DB) int {
	t.Helper()
	var n int64
	require.NoError(t, db.Model(&effect{}).Count(&n).Error)
	return int(n)
}

func addEffect(ctx context.Context) error {
	return gormstore.Tx(ctx).Create(&effect{Name: "row"}).Error
}

// openPostgres opens a database by its URL, with a pool of so many connections.
func openPostgres(t *testing.T, url string, connections int) *gorm.DB {
	t.Helper()
	return openDB(t, postgres.Open(url), connections)
}

// migratedURL is the URL of a database of the test's own, which is migrated.
func migratedURL(t *testing.T) string {
	t.Helper()
	url := pgtest.URL(t)
	migrate(t, openPostgres(t, url, 2))
	return url
}

// newPostgres is such a database, with a pool of so many connections.
func newPostgres(t *testing.T, connections int) *gorm.DB {
	t.Helper()
	return openPostgres(t, migratedURL(t), connections)
}

// onEvery runs a test, beside others, on a fresh database of each way.
func onEvery(t *testing.T, run func(t *testing.T, d database, db *gorm.DB)) {
	t.Helper()
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			run(t, d, d.fresh(t)(t))
		})
	}
}

// What does not depend on the driver's mode is tested on bothKinds, and what depends on how the statements of a Rollback
// attempt are sent on transactionKinds.
var (
	bothKinds        = []string{"postgres", "sqlite"}
	transactionKinds = []string{"postgres", "postgres wrapped", "sqlite"}
)

// sqlitePostgres runs a test, beside others, on a fresh database of bothKinds.
func sqlitePostgres(t *testing.T, run func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	t.Parallel()
	onDatabases(t, bothKinds, func(t *testing.T, open func(t *testing.T) *gorm.DB) { run(t, open(t)) })
}

// onStores is sqlitePostgres, on the named databases, for what needs a store.
func onStores(t *testing.T, names []string, run func(t *testing.T, db *gorm.DB, st *gormstore.Store)) {
	t.Helper()
	t.Parallel()
	onDatabases(t, names, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		run(t, db, newStore(t, db))
	})
}

// parallelPostgres is a database of the test's own, for a test that runs beside others.
func parallelPostgres(t *testing.T) *gorm.DB {
	t.Helper()
	t.Parallel()
	return newPostgres(t, 16)
}

// parallelStore is parallelPostgres, and a store on it.
func parallelStore(t *testing.T) (*gorm.DB, *gormstore.Store) {
	t.Helper()
	db := parallelPostgres(t)
	return db, newStore(t, db)
}

func onDatabases(t *testing.T, names []string, run func(t *testing.T, open func(t *testing.T) *gorm.DB)) {
	t.Helper()
	for _, d := range everyWay {
		if slices.Contains(names, d.name) {
			t.Run(d.name, func(t *testing.T) { run(t, d.fresh(t)) })
		}
	}
}

func newModule(t *testing.T, st core.Store, policy core.Policy) *core.Module {
	t.Helper()
	return try(core.New(core.Config{Store: st, Policy: policy})).ok(t)
}

// opened is a transaction, which is rolled back at the end of the test where nothing else ends it.
func opened(t *testing.T, db *gorm.DB) *gorm.DB {
	t.Helper()
	tx := db.Begin()
	require.NoError(t, tx.Error)
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// newRole is the name of a role, which is gone after the test.
func newRole(t *testing.T, db *gorm.DB) string {
	t.Helper()
	role := "role_" + strings.ToLower(rand.Text())
	execute(t, db, "CREATE ROLE "+role)
	t.Cleanup(func() { execute(t, db, "DROP OWNED BY "+role, "DROP ROLE "+role) })
	return role
}

// result is what a call has returned.
type result[T any] struct {
	value T
	err   error
}

// try takes what a call returns: try(st.Find(ctx, id)).ok(t) is its value where it must not fail.
func try[T any](value T, err error) result[T] { return result[T]{value, err} }

func (r result[T]) ok(t testing.TB) T {
	t.Helper()
	require.NoError(t, r.err)
	return r.value
}

// query returns what a statement reads: a value, or a slice of rows.
func query[T any](t *testing.T, db *gorm.DB, statement string, args ...any) (found T) {
	t.Helper()
	require.NoError(t, db.Raw(statement, args...).Scan(&found).Error)
	return found
}

// execute executes statements one by one.
func execute(t *testing.T, db *gorm.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		require.NoError(t, db.Exec(statement).Error, statement)
	}
}

// The times of the claims that the tests make, unless they need others.
const (
	lease    = 30 * time.Second
	deadline = 60 * time.Second
)

// command returns the claim of a new command.
func command(r core.Recovery) store.Claim {
	p := core.Principal{Issuer: "https://issuer.example", Tenant: "t-1", Subject: "u-1"}
	key := rand.Text()
	return again(store.Claim{
		ID: core.Scoping{}.RecordID(p, key), Scope: core.Scoping{}.PrincipalScope(p), Realm: core.Scoping{}.PrincipalRealm(p),
		Method: http.MethodPost, Route: "/v1/payments",
		Recovery: r, Hash: store.CommandHash{Version: 1, Sum: sha256.Sum256([]byte(key))}, Lease: lease, Deadline: deadline,
	})
}

// again returns the claim of a repeat: another attempt, with an owner of its own.
func again(c store.Claim) store.Claim {
	_, _ = rand.Read(c.Owner[:])
	return c
}

// paid is the answer that the tests record.
func paid() store.Completion {
	return store.Completion{
		Answer: core.Answer{
			Status: http.StatusCreated, Header: http.Header{"Location": {"/v1/payments/1"}}, Body: []byte("paid"),
		},
		Retention: store.DefaultRetention, Tombstone: store.DefaultTombstone,
	}
}

// refused is a recorded refusal.
func refused() store.Completion {
	c := paid()
	c.Answer = core.Answer{Status: http.StatusPaymentRequired, Body: []byte("declined")}
	return c
}

// seal seals the answer of an attempt. With undo its rows are undone first.
func seal(ctx context.Context, tx store.Attempt, c store.Completion, undo bool) error {
	_, err := tx.Seal(ctx, store.Seal{Answer: &c, Alone: undo})
	return err
}

// won is a claim that must win.
func won(t *testing.T, st *gormstore.Store, c store.Claim) store.Ticket {
	t.Helper()
	claimed := try(st.Claim(t.Context(), c)).ok(t)
	require.True(t, claimed.Won, "%+v", claimed)
	return claimed.Record.Ticket
}

// answered is a command on Park that was claimed and completed.
func answered(t *testing.T, st *gormstore.Store, c store.Claim) store.Ticket {
	t.Helper()
	ticket := won(t, st, c)
	require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Completed, Answer: paid()}))
	return ticket
}

// resume opens the segments of a Resume attempt, which must win.
func resume(t *testing.T, st *gormstore.Store, c store.Claim) (store.Attempt, core.Record) {
	t.Helper()
	c.Recovery = core.Resume
	segments, claimed, err := st.Begin(t.Context(), c)
	require.NoError(t, err)
	require.True(t, claimed.Won, "%+v", claimed)
	t.Cleanup(func() { _ = segments.Rollback() })
	return segments, claimed.Record
}

// resumed is a Resume attempt that has sealed s.
func resumed(t *testing.T, st *gormstore.Store, c store.Claim, s store.Seal) store.Ticket {
	t.Helper()
	segments, rec := resume(t, st, c)
	require.NoError(t, err2(segments.Seal(t.Context(), s)))
	return rec.Ticket
}

// begin opens the transaction of an attempt, which must win, and returns it with the handler's context. The context
// ends with the attempt's deadline or the test.
func begin(t *testing.T, st *gormstore.Store, c store.Claim) (store.Attempt, context.Context) {
	t.Helper()
	claimCtx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tx, claimed, err := st.Begin(claimCtx, c)
	require.NoError(t, err)
	require.True(t, claimed.Won, "%+v", claimed)
	t.Cleanup(func() { _ = tx.Rollback() }) // so that a failed test does not hold the connection
	ctx, cancel := context.WithTimeout(t.Context(), c.Deadline)
	t.Cleanup(cancel)
	return tx, tx.Bind(ctx, nil)
}

// beginRow is begin, with one row.
func beginRow(t *testing.T, st *gormstore.Store, c store.Claim) (store.Attempt, context.Context) {
	t.Helper()
	tx, ctx := begin(t, st, c)
	require.NoError(t, addEffect(ctx))
	return tx, ctx
}

// requireFree checks that the key can be claimed, within the time that a server on a busy machine may need to notice that a
// client is gone, and long before the lease ends; and that nothing of an earlier attempt is there.
func requireFree(t *testing.T, st *gormstore.Store, c store.Claim) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for {
		next := again(c)
		next.Recovery = core.Park
		claimed, err := st.Claim(ctx, next)
		require.NoError(t, err, "the key is not free")
		if claimed.Won {
			return
		}
		require.True(t, claimed.Busy, "there is a record: %+v", claimed.Record)
	}
}

// requireState checks the state of a record.
func requireState(t *testing.T, st *gormstore.Store, c store.Claim, want store.State, why ...any) store.Record {
	t.Helper()
	rec := try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t)
	require.Equal(t, want, rec.State(), why...)
	return rec
}

// requireCompleted checks that the answer is recorded and the attempt's rows are there.
func requireCompleted(t *testing.T, st *gormstore.Store, c store.Claim, want store.Completion) {
	t.Helper()
	rec := requireState(t, st, c, store.Completed)
	require.Equal(t, c.Owner, rec.Owner)
	require.Equal(t, want.Answer.Status, rec.Answer.Status)
	require.Equal(t, string(want.Answer.Body), string(rec.Answer.Body))
}

// requireNothing checks that there is no record of the key, visible or not.
func requireNothing(t *testing.T, st *gormstore.Store, c store.Claim) {
	t.Helper()
	_, err := st.Find(t.Context(), c.ID, store.Viewer{All: true})
	require.ErrorIs(t, err, core.ErrNotFound)
}

// sweep is a sweep of the store that does not look at this process's clock.
func sweep(t *testing.T, st *gormstore.Store, limit int) store.Swept {
	t.Helper()
	return try(st.Sweep(t.Context(), limit, store.Window{})).ok(t)
}

// later runs fn beside the test, and tells what it has returned.
func later(fn func() error) chan error {
	ended := make(chan error, 1)
	go func() { ended <- fn() }()
	return ended
}

// eventually waits until something holds that the test cannot be told of.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not yet: %s", what)
	}
}
