package gormstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/internal/pgtest"
)

// An answer was read from a primary that dies then; what is to confirm it comes to the standby that has taken over.
//
// CONTRACT F-2
func TestConfirmAsksTheServerThatWasRead(t *testing.T) {
	t.Parallel()
	db, err := gorm.Open(pgdriver.Open(pgtest.URL(t)), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, Migrate(t.Context(), db))
	st, err := New(db)
	require.NoError(t, err)
	var started time.Time
	require.NoError(t, db.Raw("SELECT pg_postmaster_start_time()").Scan(&started).Error)

	read := &recordScan{pid: 1}
	require.NoError(t, st.confirmRead(t.Context(), read), "there is no standby to wait for")
	require.False(t, st.confirmed.has(read.started.Time, read.pid))

	read.started = instant{started.Add(time.Microsecond)} // it was read from another server
	require.ErrorIs(t, st.confirmRead(t.Context(), read), errRace)
	require.False(t, st.confirmed.has(read.started.Time, read.pid))
	require.ErrorIs(t, Confirm(t.Context(), db, read.started.Time), ErrAnotherServer)

	read.started = instant{started}
	require.NoError(t, st.confirmRead(t.Context(), read))
	require.True(t, st.confirmed.has(started, 1))
	require.False(t, st.confirmed.has(started, 2), "what this backend saw was confirmed, and nothing else")
	require.NoError(t, Confirm(t.Context(), db, started))

	over, end := context.WithCancel(t.Context())
	end()
	read.pid = 2
	require.ErrorIs(t, st.confirmRead(over, read), context.Canceled)
	require.False(t, st.confirmed.has(started, 2))
}
