package database

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/internal/mariatest"
	"github.com/auth19/idem/internal/pgtest"
)

func TestParse(t *testing.T) {
	address, err := Parse("")
	require.NoError(t, err)
	require.Equal(t, "the SQLite file idem-example.db", address.String())
	require.Equal(t, "the SQLite file idem-example-provider.db", address.Provider().String())

	address, err = Parse("sqlite:/data/shop")
	require.NoError(t, err)
	require.Equal(t, "the SQLite file /data/shop-provider", address.Provider().String())

	address, err = Parse("postgres://user:hunter2@host/db")
	require.NoError(t, err)
	require.NotContains(t, address.String(), "hunter2")

	address, err = Parse("mysql://user:hunter%402@host/db")
	require.NoError(t, err)
	require.Contains(t, address.mysql, "user:hunter@2@tcp(host:3306)/db?")
	require.Equal(t, "MariaDB", address.String())

	for _, text := range []string{"sqlite:", "mysql://user:hunter2@host", "mysql://user:hunter2@host:x/db", "idem.db"} {
		_, err := Parse(text)
		require.ErrorContains(t, err, "DATABASE_URL")
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestOpenSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd name? 100%.db")
	address, err := Parse("sqlite:" + path)
	require.NoError(t, err)
	db, err := address.Open(t.Context(), 4)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, Close(db)) })

	var journal string
	require.NoError(t, db.Raw("PRAGMA journal_mode").Scan(&journal).Error)
	require.Equal(t, "wal", journal)
	_, err = os.Stat(path)
	require.NoError(t, err)
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	address, err := Parse("postgres://user:hunter2@127.0.0.1:1/db")
	require.NoError(t, err)
	_, err = address.Open(t.Context(), 4)
	require.ErrorContains(t, err, "open PostgreSQL")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestIsUnavailable(t *testing.T) {
	// PostgreSQL: nobody listens; the server ends the connection; a wrong statement.
	unreachable, err := Parse("postgres://user@127.0.0.1:1/db")
	require.NoError(t, err)
	_, err = unreachable.Open(t.Context(), 1)
	require.True(t, IsUnavailable(err), err)

	address, err := Parse(pgtest.URL(t))
	require.NoError(t, err)
	db, err := address.Open(t.Context(), 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, Close(db)) })
	err = db.Exec("SELECT pg_terminate_backend(pg_backend_pid())").Error
	require.Error(t, err)
	require.True(t, IsUnavailable(err), err)
	err = db.Exec("SELECT 1/0").Error
	require.Error(t, err)
	require.False(t, IsUnavailable(err), err)

	// MariaDB: nobody listens; the server ends the connection; a wrong statement.
	unreachable, err = Parse("mysql://user@127.0.0.1:1/db")
	require.NoError(t, err)
	_, err = unreachable.Open(t.Context(), 1)
	require.True(t, IsUnavailable(err), err)
	address, err = Parse(mariatest.URL(t))
	require.NoError(t, err)
	server, err := address.Open(t.Context(), 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, Close(server)) })
	err = server.Exec("KILL CONNECTION_ID()").Error
	require.True(t, IsUnavailable(err), err)
	err = server.Exec("SELECT nothing FROM nowhere").Error
	require.Error(t, err)
	require.False(t, IsUnavailable(err), err)

	// SQLite: another writer; a wrong statement.
	address, err = Parse("sqlite:" + filepath.Join(t.TempDir(), "busy.db"))
	require.NoError(t, err)
	file, err := address.Open(t.Context(), 2)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, Close(file)) })
	require.NoError(t, file.Exec("CREATE TABLE things (name text)").Error)
	require.NoError(t, file.Transaction(func(writer *gorm.DB) error {
		require.NoError(t, writer.Exec("INSERT INTO things VALUES ('a')").Error)
		require.NoError(t, file.Connection(func(other *gorm.DB) error {
			require.NoError(t, other.Exec("PRAGMA busy_timeout = 0").Error)
			err := other.Exec("INSERT INTO things VALUES ('b')").Error
			require.True(t, IsUnavailable(err), err)
			return nil
		}))
		return nil
	}))
	err = file.Exec("INSERT INTO nowhere VALUES (1)").Error
	require.Error(t, err)
	require.False(t, IsUnavailable(err), err)
}

// thing is a table of the test.
type thing struct {
	ID   int64
	Name string `gorm:"not null;uniqueIndex"`
}

func TestInstancesMigrateAtOnce(t *testing.T) {
	t.Run("postgres", func(t *testing.T) { instancesMigrateAtOnce(t, pgtest.URL(t)) })
	t.Run("mariadb", func(t *testing.T) { instancesMigrateAtOnce(t, mariatest.URL(t)) })
}

func instancesMigrateAtOnce(t *testing.T, url string) {
	address, err := Parse(url)
	require.NoError(t, err)
	errs := make([]error, 8)
	var group sync.WaitGroup
	for i := range errs {
		db, err := address.Open(t.Context(), 2)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, Close(db)) })
		group.Go(func() { errs[i] = Migrate(t.Context(), db, &thing{}) })
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// What was migrated is asked of the catalog no more; a model that changed is.
func TestMigrateOnce(t *testing.T) {
	url := pgtest.URL(t)
	statements := pgtest.Statements(t, url)
	address, err := Parse(url)
	require.NoError(t, err)
	db, err := address.Open(t.Context(), 2)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, Close(db)) })
	require.NoError(t, Migrate(t.Context(), db, &thing{}))
	require.Greater(t, len(statements()), 5)
	require.NoError(t, Migrate(t.Context(), db, &thing{}))
	require.Len(t, statements(), 5) // BEGIN, the lock, two looks, COMMIT

	type thing struct {
		ID    int64
		Name  string `gorm:"not null;uniqueIndex"`
		Added string
	}
	require.NoError(t, Migrate(t.Context(), db, &thing{}))
	require.NoError(t, db.Create(&thing{Name: "a", Added: "column"}).Error)
	require.NoError(t, Migrate(t.Context(), db, &thing{}))
}
