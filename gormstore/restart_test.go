package gormstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

// An answer was read from a primary that dies then; the write that is to confirm it comes to the standby that has taken
// over, and finds there what that one had.
//
// CONTRACT F-2
func TestConfirmAsksForTheAnswerThatWasRead(t *testing.T) {
	t.Parallel()
	db, err := gorm.Open(pgdriver.Open(pgtest.URL(t)), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, Migrate(t.Context(), db))
	st, err := New(db)
	require.NoError(t, err)

	const tombstone = "UPDATE idempotency_record SET state = 4, headers = NULL, body = NULL WHERE id = ?"
	for name, standby := range map[string]string{
		"the same answer":         "",
		"its tombstone":           tombstone,
		"no record":               "DELETE FROM idempotency_record WHERE id = ?",
		"a claim and no answer":   "UPDATE idempotency_record SET state = 1, headers = NULL, body = NULL WHERE id = ?",
		"a command that followed": "UPDATE idempotency_record SET fence = fence + 1 WHERE id = ?",
		"another owner's answer":  "UPDATE idempotency_record SET owner = set_byte(owner, 0, 9) WHERE id = ?",
	} {
		t.Run(name, func(t *testing.T) {
			p := core.Principal{Issuer: "https://issuer.example", Subject: "alice"}
			c := store.Claim{ID: core.Scoping{}.RecordID(p, name), Owner: store.Owner{1}, Method: "POST", Route: "/v1/payments",
				Recovery: core.Park, Hash: store.CommandHash{Version: 1}, Lease: time.Minute, Deadline: time.Minute}
			claimed, err := st.Claim(t.Context(), c)
			require.NoError(t, err)
			answer := store.Completion{Answer: core.Answer{Status: 201}, Retention: time.Hour, Tombstone: time.Hour}
			require.NoError(t, st.Complete(t.Context(), claimed.Record.Ticket, answer))

			var read recordScan
			_, err = st.scan(t.Context(), st.pool, c.ID, &read)
			require.NoError(t, err)
			require.True(t, read.started.IsZero(), "there is no standby to wait for")
			require.NoError(t, st.confirm(t.Context(), &read))
			read.started = instant{time.Now()} // as if there were one, each time after another start
			if standby != "" {
				require.NoError(t, db.Exec(standby, c.ID[:]).Error)
			}
			if standby != "" && standby != tombstone {
				require.ErrorIs(t, st.confirm(t.Context(), &read), errRace)
				require.False(t, st.confirmed.has(read.started.Time, read.pid))
				return
			}
			require.NoError(t, st.confirm(t.Context(), &read))
			require.True(t, st.confirmed.has(read.started.Time, read.pid))
		})
	}
}
