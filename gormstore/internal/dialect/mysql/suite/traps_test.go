package suite

import (
	"bytes"
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// What an app leaves on the pool's connections, outside of attempts, neither doubles nor loses a row: an attempt is refused, or
// its row and its record are there together, and so is an answer without rows.
//
// CONTRACT
func TestWhatAnAppLeaves(t *testing.T) {
	for _, leaves := range []string{
		"SET autocommit = 0", "START TRANSACTION", "START TRANSACTION READ ONLY", "SET timestamp = 7", "SET tx_read_only = 1",
		"SET sql_mode = ''", "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES'", "SET sql_select_limit = 0",
		"USE mysql", "SET completion_type = 1", "SET time_zone = '+09:00'", "SET NAMES latin1", "SET max_statement_time = 30",
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SELECT GET_LOCK('x', 0)",
	} {
		t.Run(leaves, func(t *testing.T) {
			plain, address := migrated(t)
			for _, options := range []string{"", "?multiStatements=true"} {
				for _, declined := range []bool{false, true} {
					db := open(t, address+options)
					st := newStore(t, db)
					pool, err := db.DB()
					require.NoError(t, err)
					pool.SetMaxOpenConns(4)
					leaveOn(t, pool, leaves)
					c := command(core.Rollback)
					claimed, wrote := attemptOnce(t, st, c, declined)

					clean := newStore(t, open(t, address))
					rec, err := clean.Find(t.Context(), c.ID, store.Viewer{All: true})
					var rows int64
					require.NoError(t, plain.Table("effects").Count(&rows).Error)
					switch {
					case wrote == nil && claimed.Won:
						require.NoError(t, err, "the answer is there")
						require.Equal(t, store.Completed, rec.State())
						assert.Equal(t, declined, rows == 0)
					default:
						require.ErrorIs(t, err, store.ErrNotFound, "%v", wrote)
						assert.Zero(t, rows)
					}
					require.NoError(t, plain.Exec("DELETE FROM effects").Error)
				}
			}
		})
	}
}

// leaveOn sends a statement over all connections that a pool may have.
func leaveOn(t *testing.T, pool *sql.DB, statement string) {
	t.Helper()
	var all []*sql.Conn
	for range pool.Stats().MaxOpenConnections {
		own, err := pool.Conn(t.Context())
		require.NoError(t, err)
		_, err = own.ExecContext(t.Context(), statement)
		require.NoError(t, err)
		all = append(all, own)
	}
	for _, own := range all {
		require.NoError(t, own.Close())
	}
}

// attemptOnce runs an attempt with a row, and ends it with an answer that keeps it, or not.
func attemptOnce(t *testing.T, st *gormstore.Store, c store.Claim, declined bool) (store.Claimed, error) {
	t.Helper()
	a, claimed, err := st.Begin(within(t, 10*time.Second), c)
	if err != nil || !claimed.Won {
		return claimed, err
	}
	if err := gormstore.Tx(a.Bind(t.Context(), nil)).Exec("INSERT INTO effects (name) VALUES ('x')").Error; err != nil {
		_ = a.Rollback()
		return claimed, err
	}
	seal := answered()
	seal.Alone = declined
	_, err = a.Seal(t.Context(), seal)
	return claimed, err
}

// The clock is the server's, in no time zone, whatever the address says.
//
// CONTRACT T-5
func TestTimeZones(t *testing.T) {
	_, address := migrated(t)
	for _, options := range []string{"?parseTime=true&loc=Asia%2FTokyo&time_zone=%27-07%3A00%27", "?loc=Local&time_zone=%27%2B13%3A00%27"} {
		st := newStore(t, open(t, address+options))
		c := command(core.Rollback)
		_, err := attemptOnce(t, st, c, false)
		require.NoError(t, err)
		rec, err := st.Find(t.Context(), c.ID, store.Viewer{All: true})
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), rec.CreatedAt, time.Minute)
		_, claimed, err := st.Begin(t.Context(), again(c))
		require.NoError(t, err)
		require.Equal(t, store.Completed, claimed.Record.State())
	}
}

// An answer of 1 MiB fits a packet of 4 MiB, which Validate asks for, and comes back byte for byte.
//
// CONTRACT R-4
func TestLongAnswer(t *testing.T) {
	_, address := migrated(t)
	st := newStore(t, open(t, address+"?maxAllowedPacket=4194304"))
	c := command(core.Rollback)
	a, _ := begin(t, st, c)
	body := bytes.Repeat([]byte{0, '\'', '\\', 0xff}, 1<<18)
	seal := answered()
	seal.Answer.Answer.Body = body
	_, err := a.Seal(t.Context(), seal)
	require.NoError(t, err)
	rec, err := st.Find(t.Context(), c.ID, store.Viewer{All: true})
	require.NoError(t, err)
	require.Equal(t, body, rec.Answer.Body)
}

// A migration that has run waits for no attempt, and no attempt for it.
func TestMigrateBesideAnAttempt(t *testing.T) {
	db, address := migrated(t)
	st := newStore(t, db)
	a, _ := begin(t, st, command(core.Rollback))
	require.NoError(t, gormstore.Migrate(within(t, 10*time.Second), open(t, address)))
	_, err := a.Seal(t.Context(), answered())
	require.NoError(t, err)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
