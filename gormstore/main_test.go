package gormstore_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"net/http"
	"path/filepath"
	"slices"
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
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
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

func newStore(t *testing.T, db *gorm.DB) *gormstore.Store {
	t.Helper()
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// advance moves all timestamps of all records d into the past.
func advance(t *testing.T, db *gorm.DB, d time.Duration) {
	t.Helper()
	by := "? * interval '1 microsecond'"
	if db.Name() == "sqlite" {
		by = "?"
	}
	set := ""
	args := make([]any, 0, 6)
	for _, column := range []string{"created_at", "lease_until", "deadline_at", "expires_at", "purge_at", "sweep_from"} {
		if set != "" {
			set += ", "
		}
		set += column + " = " + column + " - " + by
		args = append(args, d.Microseconds())
	}
	require.NoError(t, db.Exec("UPDATE idempotency_record SET "+set, args...).Error)
	require.NoError(t, db.Exec("UPDATE idempotency_setting SET value = CAST(CAST(value AS bigint) - ? AS text)"+
		" WHERE name IN ('patrol/limit', 'patrol/passed')", d.Microseconds()).Error)
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

// sqlitePostgres runs a test on a fresh database of each kind, for what does not depend on the driver's mode.
func sqlitePostgres(t *testing.T, run func(t *testing.T, open func(t *testing.T) *gorm.DB)) {
	t.Helper()
	onDatabases(t, []string{"postgres", "sqlite"}, run)
}

// transactions is sqlitePostgres for what depends on how the statements of a Rollback attempt are sent.
func transactions(t *testing.T, run func(t *testing.T, open func(t *testing.T) *gorm.DB)) {
	t.Helper()
	onDatabases(t, []string{"postgres", "postgres wrapped", "sqlite"}, run)
}

func onDatabases(t *testing.T, names []string, run func(t *testing.T, open func(t *testing.T) *gorm.DB)) {
	t.Helper()
	for _, d := range everyWay {
		if slices.Contains(names, d.name) {
			t.Run(d.name, func(t *testing.T) { run(t, d.fresh(t)) })
		}
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
func seal(ctx context.Context, tx store.Tx, c store.Completion, undo bool) error {
	_, err := tx.Seal(ctx, store.Seal{Answer: &c, Alone: undo})
	return err
}

// resume opens the segments of a Resume attempt, which must win.
func resume(t *testing.T, st *gormstore.Store, c store.Claim) (store.Segments, core.Record) {
	t.Helper()
	c.Recovery = core.Resume
	segments, claimed, err := st.Resume(t.Context(), c)
	require.NoError(t, err)
	require.True(t, claimed.Won, "%+v", claimed)
	segments.Opening(func() error { return nil })
	t.Cleanup(func() { _ = segments.Rollback() })
	return segments, claimed.Record
}

// resumed is a Resume attempt that has sealed s.
func resumed(t *testing.T, st *gormstore.Store, c store.Claim, s store.Seal) store.Ticket {
	t.Helper()
	segments, rec := resume(t, st, c)
	_, err := segments.Seal(t.Context(), s)
	require.NoError(t, err)
	return rec.Ticket
}

// begin opens the transaction of an attempt, which must win, and returns it with the handler's context. The context
// ends with the attempt's deadline or the test.
func begin(t *testing.T, st *gormstore.Store, c store.Claim) (store.Tx, context.Context) {
	t.Helper()
	claimCtx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tx, claimed, err := st.Begin(claimCtx, c)
	require.NoError(t, err)
	require.True(t, claimed.Won, "%+v", claimed)
	t.Cleanup(func() { _ = tx.Rollback() }) // so that a failed test does not hold the connection
	ctx, cancel := context.WithTimeout(t.Context(), c.Deadline)
	t.Cleanup(cancel)
	return tx, tx.Bind(ctx)
}

// requireFree checks that the key can be claimed, within the time the server may need to notice that a client is gone,
// and that nothing of an earlier attempt is there.
func requireFree(t *testing.T, st *gormstore.Store, c store.Claim, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		next := again(c)
		next.Recovery = core.Park
		claimed, err := st.Claim(ctx, next)
		require.NoError(t, err, "the key is not free after %s", within)
		if claimed.Won {
			return
		}
		require.True(t, claimed.Busy, "there is a record: %+v", claimed.Record)
	}
}

// requireCompleted checks that the answer is recorded and the attempt's rows are there.
func requireCompleted(t *testing.T, st *gormstore.Store, c store.Claim, want store.Completion) {
	t.Helper()
	rec, err := st.Find(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, store.Completed, rec.State())
	require.Equal(t, c.Owner, rec.Owner)
	require.Equal(t, want.Answer.Status, rec.Answer.Status)
	require.Equal(t, string(want.Answer.Body), string(rec.Answer.Body))
}

// requireNothing checks that there is no record of the key, visible or not.
func requireNothing(t *testing.T, st *gormstore.Store, c store.Claim) {
	t.Helper()
	_, err := st.Find(t.Context(), c.ID)
	require.ErrorIs(t, err, core.ErrNotFound)
}

// eventually waits until something holds that the test cannot be told of.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not yet: %s", what)
	}
}
