package core_test

import (
	"cmp"
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// booking is a business row.
type booking struct {
	ID   uint
	Name string
}

// rowsApp is an app whose handlers write rows, in Rollback on a SQLite file.
type rowsApp struct {
	*app
	db     *gorm.DB
	store  *gormstore.Store
	faults *faultTransactor
}

func newRowsApp(t *testing.T, cfg core.Config, handler http.HandlerFunc) *rowsApp {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	db, err := gorm.Open(sqlite.Open("file:"+file+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(8)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.AutoMigrate(&booking{}))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })

	faults := &faultTransactor{newFaultStore(store), store}
	cfg.Store = faults
	cfg.ClaimTimeout = cmp.Or(cfg.ClaimTimeout, 10*time.Second) // of a file on a busy machine
	if cfg.Routes == nil {
		cfg.Policy.Recovery = core.Rollback
	}
	return &rowsApp{app: newApp(t, cfg, handler), db: db, store: store, faults: faults}
}

// faultTransactor is a faultStore for Rollback.
type faultTransactor struct {
	*faultStore
	under *gormstore.Store
}

func (s *faultTransactor) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	if c.Recovery == store.Resume {
		return s.faultStore.Begin(ctx, c)
	}
	if err := s.before(ctx, "begin"); err != nil {
		return nil, store.Claimed{}, err
	}
	tx, claimed, err := s.under.Begin(ctx, c)
	if tx != nil {
		tx = &faultTx{tx, s}
	}
	return tx, claimed, err
}

func (s *faultTransactor) InFlight(ctx context.Context, id core.ID) (bool, error) {
	return through(ctx, s.faultStore, "in flight", func() (bool, error) { return s.under.InFlight(ctx, id) })
}

// faultTx is a transaction that the hook "end" ends with an error, rolled back, and "after commit" once it is committed.
type faultTx struct {
	store.Attempt
	store *faultTransactor
}

func (t *faultTx) Seal(ctx context.Context, s store.Seal) (time.Time, error) {
	if err := t.store.before(ctx, "end"); err != nil {
		_ = t.Attempt.Rollback()
		return time.Time{}, err
	}
	now, err := t.Attempt.Seal(ctx, s)
	return now, t.store.after(ctx, "commit", err)
}

func (t *faultTx) Rollback() error {
	err := t.Attempt.Rollback()
	if err := t.store.before(context.Background(), "end"); err != nil {
		return err
	}
	return err
}

// books writes a row and goes on with next.
func books(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := gormstore.Tx(r.Context()).Create(&booking{Name: "booked"}).Error; err != nil {
			panic(err)
		}
		next(w, r)
	}
}

// rows counts the business rows.
func (a *rowsApp) rows() int {
	a.t.Helper()
	var n int64
	require.NoError(a.t, a.db.WithContext(context.Background()).Model(&booking{}).Count(&n).Error)
	return int(n)
}

// record reads the record of alice's key.
func (a *rowsApp) record(key string) core.Record {
	a.t.Helper()
	return find(a.t, a.store, key)
}
