package gormstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/store"
)

// An intent that is dropped too early gets a new key when it comes again, and is paid twice. So a database whose clock is
// far off drops nothing.
//
// CONTRACT T-5, C-1
func TestJournalSweepWithClocksApart(t *testing.T) {
	t.Parallel()
	longAgo := map[string]string{"postgres": "'epoch'", "sqlite": "0"}
	for name, st := range onEach(t) {
		t.Run(name, func(t *testing.T) {
			j, err := NewJournal(st.db)
			require.NoError(t, err)
			_, err = j.Begin(t.Context(), intents.Entry{Intent: "order-7", Command: store.CommandHash{Version: 1}})
			require.NoError(t, err)
			require.NoError(t, j.End(t.Context(), "order-7"))
			require.NoError(t, st.db.Exec("UPDATE idempotency_intent SET ended_at = "+longAgo[name]).Error)
			for _, ahead := range []time.Duration{-journalSkew - time.Minute, journalSkew + time.Minute} {
				j.now = func() time.Time { return time.Now().Add(ahead) }
				n, err := j.Sweep(t.Context(), MinIntentKeep, 10)
				require.ErrorIs(t, err, store.ErrClock)
				require.Zero(t, n)
			}
			for _, ahead := range []time.Duration{-journalSkew + time.Minute, journalSkew - time.Minute} {
				j.now = func() time.Time { return time.Now().Add(ahead) }
				_, err := j.Sweep(t.Context(), MinIntentKeep, 10)
				require.NoError(t, err)
			}
			_, found, err := j.Find(t.Context(), "order-7")
			require.NoError(t, err)
			require.False(t, found)
		})
	}
}
