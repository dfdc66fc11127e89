package gormstore

import (
	"path/filepath"
	"testing"
	"time"

	libtnb "github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

// storeOn is a store on a database, whose tables may not be there yet.
func storeOn(t *testing.T, dialector gorm.Dialector) *Store {
	t.Helper()
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	store, err := New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// storeAt is a store on the server at url.
func storeAt(t *testing.T, url string) *Store {
	t.Helper()
	return storeOn(t, pgdriver.Open(url))
}

// onEach are stores on a migrated database of each kind.
func onEach(t *testing.T) map[string]*Store {
	t.Helper()
	stores := map[string]*Store{
		"postgres": storeAt(t, pgtest.URL(t)),
		"sqlite": storeOn(t, libtnb.Open("file:"+filepath.Join(t.TempDir(), "test.db")+
			"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)")),
	}
	for _, st := range stores {
		require.NoError(t, Migrate(t.Context(), st.db))
	}
	return stores
}

// claimOf is the claim of a command.
func claimOf(id byte, r store.Recovery) store.Claim {
	return store.Claim{ID: store.ID{id}, Owner: store.Owner{1}, Scope: store.Scope{1}, Method: "POST", Route: "/v1/payments",
		Recovery: r, Hash: store.CommandHash{Version: 1}, Lease: time.Minute, Deadline: time.Minute}
}

// won is a claim that must win.
func won(t *testing.T, st *Store, c store.Claim) store.Ticket {
	t.Helper()
	claimed, err := st.Claim(t.Context(), c)
	require.NoError(t, err)
	require.True(t, claimed.Won)
	return claimed.Record.Ticket
}

// done is what the commands of these tests end with.
var done = store.Completion{Answer: store.Answer{Status: 201}, Retention: time.Hour, Tombstone: time.Hour}
