package gormstore_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/utils/tests"

	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

func TestNewRefuses(t *testing.T) {
	t.Run("another database", func(t *testing.T) {
		db := try(gorm.Open(tests.DummyDialector{}, &gorm.Config{})).ok(t)
		require.ErrorContains(t, err2(gormstore.New(db)), `the database is "dummy"; use PostgreSQL`)
		require.ErrorContains(t, gormstore.Migrate(t.Context(), db), "dummy")
		require.ErrorContains(t, gormstore.Audit(t.Context(), db), "dummy")
	})

	t.Run("a pool that is too small", func(t *testing.T) {
		db := openPostgres(t, pgtest.URL(t), 1)
		_, err := gormstore.New(db)
		require.ErrorContains(t, err, "SetMaxOpenConns(1)")
		require.ErrorContains(t, err, "at least 2")
		require.ErrorContains(t, err2(gormstore.New(openDB(t, sqlite.Open(sqliteAddress(t)), 2))), "at least 3")
	})
}

// New creates nothing: not a table, not a connection that stays.
func TestNewCreatesNothing(t *testing.T) {
	db := openPostgres(t, pgtest.URL(t), 4)
	store := newStore(t, db)
	require.Zero(t, query[int64](t, db, "SELECT count(*) FROM pg_class WHERE relname LIKE 'idempotency%'"))
	require.ErrorContains(t, store.Validate(t.Context()), "run gormstore.Migrate")
	require.NoError(t, store.Close())
	require.NoError(t, db.Exec("SELECT 1").Error, "the database is the app's")
	_, err := gormstore.New(db)
	require.NoError(t, err, "the guard is there already")
}

const holdVariable = "GORMSTORE_TEST_HOLD"

// TestHoldFile is the other process of TestSQLiteFileHasOneStore: it takes the file and keeps it until it is killed.
func TestHoldFile(t *testing.T) {
	address := os.Getenv(holdVariable)
	if address == "" {
		return
	}
	newStore(t, openDB(t, sqlite.Open(address), 3))
	fmt.Println("taken")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// Two processes on one file would not see each other's running attempts.
func TestSQLiteFileHasOneStore(t *testing.T) {
	address := sqliteAddress(t)
	open := func() *gorm.DB { return openDB(t, sqlite.Open(address), 3) }
	db := open()
	migrate(t, db)
	requireTaken := func() {
		t.Helper()
		for _, db := range []*gorm.DB{db, open()} {
			require.ErrorContains(t, err2(gormstore.New(db)), "is in use by another process or store")
		}
	}

	store := try(gormstore.New(db)).ok(t)
	requireTaken()
	require.NoError(t, store.Close())

	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHoldFile$", "-test.v")
	other.Env = append(os.Environ(), holdVariable+"="+address)
	input := try(other.StdinPipe()).ok(t)
	output := try(other.StdoutPipe()).ok(t)
	require.NoError(t, other.Start())
	for lines := bufio.NewScanner(output); ; {
		require.True(t, lines.Scan(), "the other process takes the file")
		if lines.Text() == "taken" {
			break
		}
	}
	requireTaken()
	require.NoError(t, other.Process.Kill())
	require.Error(t, other.Wait())
	_ = input.Close()

	newStore(t, db) // free as soon as the process is gone
}

// Stores that take one file in turns: never two at a time, and the last one leaves no lock file behind.
func TestSQLiteOwnerFileIsRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "turns.db")
	var owners, turns atomic.Int32
	var group sync.WaitGroup
	for range 4 {
		db := openDB(t, sqlite.Open("file:"+filepath.ToSlash(path)+"?_pragma=journal_mode(wal)"), 3)
		group.Go(func() {
			for range 25 {
				store, err := gormstore.New(db)
				if err != nil {
					continue // it is another one's turn
				}
				turns.Add(1)
				assert.EqualValues(t, 1, owners.Add(1))
				runtime.Gosched()
				owners.Add(-1)
				assert.NoError(t, store.Close())
			}
		})
	}
	group.Wait()
	require.Positive(t, turns.Load())
	// Two that come at the same moment may refuse each other, and leave a file that nobody owns. The next owner takes it.
	store := try(gormstore.New(openDB(t, sqlite.Open("file:"+filepath.ToSlash(path)+"?_pragma=journal_mode(wal)"), 3))).ok(t)
	require.NoError(t, store.Close())
	require.Empty(t, try(filepath.Glob(path+"-owner*")).ok(t))
}

// A second Close does nothing: the lock file may be that of another store by then.
func TestSQLiteFileIsGivenBackOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "twice.db")
	open := func() *gorm.DB {
		return openDB(t, sqlite.Open("file:"+filepath.ToSlash(path)+"?_pragma=journal_mode(wal)"), 3)
	}
	first := try(gormstore.New(open())).ok(t)
	require.NoError(t, first.Close())
	second := try(gormstore.New(open())).ok(t)
	require.NoError(t, first.Close())
	require.ErrorContains(t, err2(gormstore.New(open())), "in use by another process or store")
	require.NoError(t, second.Close())
}
