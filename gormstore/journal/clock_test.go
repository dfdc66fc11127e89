package journal

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// An intent that is dropped too early gets a new key when it comes again, and is paid twice. So a database whose clock is
// far off drops nothing.
//
// CONTRACT T-5, C-1
func TestSweepWithClocksApart(t *testing.T) {
	t.Parallel()
	for name, dialector := range map[string]gorm.Dialector{
		"postgres": postgres.Open(pgtest.URL(t)),
		"sqlite":   sqlite.Open("file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"),
	} {
		t.Run(name, func(t *testing.T) {
			db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
			require.NoError(t, err)
			pool, err := db.DB()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, pool.Close()) })
			require.NoError(t, gormstore.Migrate(t.Context(), db))
			j, err := New(db)
			require.NoError(t, err)
			_, err = j.Begin(t.Context(), intents.Entry{Intent: "order-7", Command: store.CommandHash{Version: 1}})
			require.NoError(t, err)
			require.NoError(t, j.End(t.Context(), "order-7"))
			require.NoError(t, db.Exec("UPDATE idempotency_intent SET ended_at = 0").Error)
			for _, ahead := range []time.Duration{-j.skew - time.Minute, j.skew + time.Minute} {
				j.now = func() time.Time { return time.Now().Add(ahead) }
				n, err := j.Sweep(t.Context(), MinKeep, 10)
				require.ErrorIs(t, err, store.ErrClock)
				require.Zero(t, n)
			}
			for _, ahead := range []time.Duration{-j.skew + time.Minute, j.skew - time.Minute} {
				j.now = func() time.Time { return time.Now().Add(ahead) }
				_, err := j.Sweep(t.Context(), MinKeep, 10)
				require.NoError(t, err)
			}
			_, found, err := j.Find(t.Context(), "order-7")
			require.NoError(t, err)
			require.False(t, found)
		})
	}
}
