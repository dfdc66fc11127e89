package gormstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
	"github.com/auth19/idem/internal/pgtest"
)

// An answer was read from a primary that dies then; what is to confirm it comes to the standby that has taken over.
//
// CONTRACT F-2
func TestConfirmAsksTheServerThatWasRead(t *testing.T) {
	t.Parallel()
	st := onEach(t)["postgres"]
	db := st.db.Gorm
	var started time.Time
	require.NoError(t, db.Raw("SELECT pg_postmaster_start_time()").Scan(&started).Error)

	read := txn.Server{PID: 1}
	require.NoError(t, st.db.ConfirmRead(t.Context(), read), "there is no standby to wait for")
	require.False(t, st.db.Confirmed.Has(read.Started.Int64, read.PID))

	read.Started = pgtype.Int8{Int64: started.UnixMicro() + 1, Valid: true} // it was read from another server
	require.ErrorIs(t, st.db.ConfirmRead(t.Context(), read), txn.ErrRace)
	require.False(t, st.db.Confirmed.Has(read.Started.Int64, read.PID))
	require.ErrorIs(t, Confirm(t.Context(), db, started.Add(time.Microsecond)), txn.ErrAnotherServer)

	read.Started = pgtype.Int8{Int64: started.UnixMicro(), Valid: true}
	require.NoError(t, st.db.ConfirmRead(t.Context(), read))
	require.True(t, st.db.Confirmed.Has(started.UnixMicro(), 1))
	require.False(t, st.db.Confirmed.Has(started.UnixMicro(), 2), "what this backend saw was confirmed, and nothing else")
	require.NoError(t, Confirm(t.Context(), db, started))

	over, end := context.WithCancel(t.Context())
	end()
	read.PID = 2
	require.ErrorIs(t, st.db.ConfirmRead(over, read), context.Canceled)
	require.False(t, st.db.Confirmed.Has(started.UnixMicro(), 2))
}

// readBackOf is what the end of a Rollback attempt reads after its COMMIT has been cut off.
func readBackOf(t *testing.T, s *Store, ticket store.Ticket) (committed, certain bool) {
	t.Helper()
	return readBackAnswer(t, s, ticket, done)
}

func readBackAnswer(t *testing.T, s *Store, ticket store.Ticket, answer store.Completion) (committed, certain bool) {
	t.Helper()
	a := &attempt{store: s, claim: store.Claim{ID: ticket.ID, Owner: ticket.Owner}, fence: ticket.Fence}
	a.first = segment{attempt: a, seal: &store.Seal{Answer: &answer}}
	require.NoError(t, a.first.sealUp(t.Context()))
	committed, certain, stale := (&txn.Tx{DB: s.db, Entry: &a.first}).Look(t.Context())
	require.NoError(t, stale)
	return committed, certain
}

// The answer that is there may be another attempt's: only the own one says that COMMIT has taken effect.
//
// CONTRACT
func TestReadBackAsksForItsOwnAnswer(t *testing.T) {
	t.Parallel()
	st, c := onEach(t)["postgres"], claimOf(1, store.Park)
	ticket := won(t, st, c)
	committed, certain := readBackOf(t, st, ticket)
	require.False(t, committed, "a claim is no answer")
	require.True(t, certain)

	require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Completed, Answer: done}))
	committed, _ = readBackOf(t, st, ticket)
	require.True(t, committed)
	another := done
	another.Answer.Body = []byte("{}")
	committed, _ = readBackAnswer(t, st, ticket, another)
	require.False(t, committed, "the bytes are compared")
	other, later := ticket, ticket
	other.Owner[0]++
	later.Fence++
	for name, foreign := range map[string]store.Ticket{"another owner": other, "another fence": later} {
		committed, certain = readBackOf(t, st, foreign)
		require.False(t, committed, name)
		require.True(t, certain, name)
	}

	// An answer that was erased in the meantime was committed all the same.
	erased, err := st.Erase(t.Context(), c.Scope, store.ID{}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, erased.Records)
	committed, _ = readBackOf(t, st, ticket)
	require.True(t, committed)
}

// The step that is there may be another attempt's, or only begun: only the own result says that COMMIT has taken effect.
//
// CONTRACT
func TestReadBackAsksForItsOwnStep(t *testing.T) {
	t.Parallel()
	st, c := onEach(t)["postgres"], claimOf(1, store.Resume)
	open, claimed, err := st.Begin(t.Context(), c)
	require.NoError(t, err)
	committed := func(seal store.Seal, fence int64) bool {
		of := &attempt{store: st, claim: c, fence: fence}
		committed, certain, stale := (&txn.Tx{DB: st.db, Entry: &segment{attempt: of, seal: &seal}}).Look(t.Context())
		require.True(t, committed || certain || stale != nil)
		return committed
	}
	fence := claimed.Record.Fence
	charge := store.StepRecord{Name: "charge", Kind: store.ProviderStep, Result: []byte("1")}
	started, finished := store.Seal{Start: &charge}, store.Seal{Steps: []store.StepRecord{charge}}
	_, err = open.Seal(t.Context(), store.Seal{Start: &store.StepRecord{Name: "other", Kind: store.ProviderStep}})
	require.NoError(t, err)
	require.False(t, committed(started, fence), "only the record is there, and another step")
	_, err = open.Seal(t.Context(), started)
	require.NoError(t, err)
	require.True(t, committed(started, fence))
	require.False(t, committed(finished, fence), "a step that has begun has no result")
	require.False(t, committed(store.Seal{Steps: finished.Steps, Start: started.Start}, fence),
		"the call behind the step has begun before, as in a repeat: its start does not say that this seal has committed")
	_, err = open.Seal(t.Context(), finished)
	require.NoError(t, err)
	require.True(t, committed(finished, fence))
	require.False(t, committed(finished, fence+1), "another attempt's")
	payout := store.Seal{Steps: finished.Steps, Start: &store.StepRecord{Name: "payout", Kind: store.ProviderStep}}
	require.False(t, committed(payout, fence), "the result was recorded before; without its own start the next call must not leave")
}

// A standby may be behind its primary: that the answer is absent there says nothing.
//
// CONTRACT X-4, F-2
func TestReadBackDoesNotBelieveAStandby(t *testing.T) {
	t.Parallel()
	primary := pgtest.Own(t)
	require.NoError(t, Migrate(t.Context(), storeAt(t, primary.URL()).db.Gorm))
	ticket := store.Ticket{ID: store.ID{1}, Owner: store.Owner{1}, Fence: 1}
	committed, certain := readBackOf(t, storeAt(t, primary.URL()), ticket)
	require.False(t, committed)
	require.True(t, certain, "the primary knows")

	standby := primary.Standby()
	committed, certain = readBackOf(t, storeAt(t, standby.URL()), ticket)
	require.False(t, committed)
	require.False(t, certain, "a standby does not")

	// Nor does it say that its primary's standby has what can be seen here.
	onStandby := storeAt(t, standby.URL())
	require.ErrorContains(t, onStandby.db.Confirm(t.Context(), 0), "recovery")

	// Nor does it say that no attempt is running: the locks of the primary cannot be seen there. CONTRACT M-7
	_, err := storeAt(t, standby.URL()).InFlight(t.Context(), ticket.ID)
	require.ErrorContains(t, err, "the server is a standby")
}

// At a stricter level the first seal of a Resume attempt is refused, and what is then recorded alone gets a transaction of
// its own. Each of the two looks for another attempt's record before the client hears that nothing was applied.
//
// CONTRACT M-6, X-4
func TestEachTransactionLooksForAnotherRecord(t *testing.T) {
	t.Parallel()
	st := storeAt(t, pgtest.URL(t)+"&default_transaction_isolation=repeatable%20read")
	require.NoError(t, Migrate(t.Context(), st.db.Gorm))
	c := claimOf(1, store.Rollback)
	first, claimed, err := st.Begin(t.Context(), c)
	require.NoError(t, err)
	require.True(t, claimed.Won)
	require.NoError(t, first.Rollback(), "nothing is there")
	a := first.(*attempt)
	second := &txn.Tx{DB: st.db, Mark: a.last.Mark}

	other := c
	other.Owner = store.Owner{2}
	require.NoError(t, st.End(t.Context(), won(t, st, other), store.Ending{State: store.Completed, Answer: done}))
	require.ErrorIs(t, a.errorByRecord(t.Context(), a.last, &a.first, store.ErrRetryable), store.ErrRetryable, "it has looked")
	require.ErrorIs(t, a.errorByRecord(t.Context(), second, &a.first, store.ErrRetryable), store.ErrStale)
}
