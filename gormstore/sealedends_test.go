package gormstore_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// tinkAEAD has the methods of AEAD of github.com/tink-crypto/tink-go/v2/tink, and no more. Package interop tries Tink
// itself.
type tinkAEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

var (
	_ gormstore.AEAD = tinkAEAD(nil)
	_ tinkAEAD       = gormstore.AEAD(nil)
)

// An operator's answer, a proposed one and an imported one are sealed as any, and one that cannot be sealed settles and imports nothing.
//
// CONTRACT F-9, X-7, F-4
func TestSettledAndImportedAnswersAreSealed(t *testing.T) {
	t.Parallel()
	onDatabases(t, []string{"postgres", "sqlite"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		f := &faulty{AEAD: aead(t, "2026-a")}
		st := newStore(t, db, gormstore.Seal(f))
		answer := store.Answer{Status: http.StatusCreated, Header: http.Header{"Location": {"/v1/" + iban}}, Body: []byte(iban)}
		kept := store.Completion{Answer: answer, Retention: time.Hour, Tombstone: time.Hour}
		fail := func() ([]byte, error) { return nil, errors.New("no key") }

		c := command(store.Park)
		ticket := won(t, st, c)
		require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Unknown}))
		advance(t, db, time.Hour)
		settle := func(a *store.Completion) (store.Record, error) {
			return st.Settle(t.Context(), store.Settlement{ID: c.ID, Fence: ticket.Fence, Answer: a, Who: "olga", Why: "asked",
				Window: store.Window{From: time.Unix(0, 0), To: time.Now().Add(time.Hour)}})
		}
		proposal := store.Note{ID: c.ID, Token: [16]byte{7}, Who: "otto", Text: "asked", Fence: ticket.Fence, Decision: []byte(iban)}
		window := store.Window{From: time.Unix(0, 0), To: time.Now().Add(time.Hour)}
		f.fail.Store(&fail)
		require.ErrorIs(t, st.Propose(t.Context(), proposal, window), store.ErrUnsealed)
		f.fail.Store(nil)
		require.NoError(t, st.Propose(t.Context(), proposal, window))
		require.NotContains(t, tables(t, db), "DE89")
		decision := func() []byte { return try(st.Notes(t.Context(), []store.ID{c.ID})).ok(t)[c.ID][0].Decision }
		require.Equal(t, iban, string(decision()))
		execute(t, db, "UPDATE idempotency_note SET fence = fence + 1")
		require.Nil(t, decision(), "it was about another attempt")
		execute(t, db, "DELETE FROM idempotency_note")

		f.fail.Store(&fail)
		_, err := settle(&kept)
		require.ErrorIs(t, err, store.ErrUnsealed)
		requireState(t, st, c, store.Unknown)
		f.fail.Store(nil)
		require.Equal(t, answer, try(settle(&kept)).ok(t).Answer)
		requireCompleted(t, st, c, kept)

		past := try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t)
		past.ID[31]++
		f.fail.Store(&fail)
		_, err = st.Import(t.Context(), []store.Record{past})
		require.ErrorIs(t, err, store.ErrUnsealed)
		require.Equal(t, 1, query[int](t, db, "SELECT count(*) FROM idempotency_record"))
		f.fail.Store(nil)
		unread := past
		unread.Answer = store.Answer{Status: http.StatusCreated, Unread: store.Unreadable}
		_, err = st.Import(t.Context(), []store.Record{unread})
		require.ErrorIs(t, err, store.ErrUnreadable, "a success without its body")
		require.Equal(t, store.Imported{Added: 1}, try(st.Import(t.Context(), []store.Record{past})).ok(t))
		require.Equal(t, answer, try(st.Find(t.Context(), past.ID, store.Viewer{All: true})).ok(t).Answer)

		require.NotContains(t, tables(t, db), "DE89")
		require.Equal(t, 2, query[int](t, db, "SELECT count(*) FROM idempotency_record WHERE answer_encoding = 2"))

		d := command(store.Park) // a settlement without an answer seals nothing
		ticket = won(t, st, d)
		require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Unknown}))
		advance(t, db, time.Hour)
		f.fail.Store(&fail)
		c = d
		require.Equal(t, store.Free, try(settle(nil)).ok(t).State())
	})
}

// An owner that wakes behind its deadline still records its answer, sealed; one that cannot be sealed has a second for it,
// and the status alone is recorded.
//
// CONTRACT F-9, X-2, R-4
func TestLateAnswerIsSealed(t *testing.T) {
	t.Parallel()
	onDatabases(t, []string{"postgres", "sqlite"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db, f := open(t), &faulty{AEAD: aead(t, "2026-a")}
		hang := func() ([]byte, error) { <-t.Context().Done(); return nil, t.Context().Err() }
		for key, aead := range map[string]gormstore.AEAD{"late": f.AEAD, "hangs": f} {
			st := asked(t, try(gormstore.New(db, gormstore.Seal(aead))).ok(t))
			m := newModule(t, st, core.Policy{Recovery: core.Park, Deadline: time.Second, Lease: time.Second})
			first := serve(t, m, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done() // behind the deadline
				f.fail.Store(&hang)
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte(iban))
			}))
			f.fail.Store(nil)
			require.Equal(t, "created", first.Header().Get("Idempotency-Result"), first.Body)
			again := serve(t, m, key, http.NotFoundHandler())
			if key == "late" {
				requireReplay(t, first, again)
			} else {
				require.Contains(t, again.Body.String(), "response_not_replayable")
			}
			require.NotContains(t, tables(t, db), "DE89")
			require.NoError(t, st.Close())
		}
	})
}

// A seal that would outlast the deadline of its attempt is given up before it, so that the rest is enough to say so.
//
// CONTRACT F-9, X-1
func TestSealCountsIntoTheDeadline(t *testing.T) {
	t.Parallel()
	db := freshSQLite(t)(t)
	f := &faulty{AEAD: aead(t, "2026-a")}
	st := newStore(t, db, gormstore.Seal(f))
	m := newModule(t, st, core.Policy{Recovery: core.Rollback, Deadline: 3 * time.Second})
	var given time.Duration
	hang := func() ([]byte, error) { <-t.Context().Done(); return nil, t.Context().Err() }
	begun := time.Now()
	w := serve(t, m, "k-1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, addEffect(r.Context()))
		deadline, ok := r.Context().Deadline()
		require.True(t, ok)
		given = deadline.Sub(begun)
		f.fail.Store(&hang)
		w.WriteHeader(http.StatusCreated)
	}))
	require.Equal(t, "rolled_back", w.Header().Get("Idempotency-Problem"), w.Body)
	require.Less(t, time.Since(begun), given+time.Second)
	require.Zero(t, countEffects(t, db))
}

// What a call has returned and cannot be sealed is unfinished, also where no window was declared: then the operation is
// parked, because the call may not be made again.
//
// CONTRACT F-9, X-3
func TestUnsealedResultWithoutAWindow(t *testing.T) {
	t.Parallel()
	onDatabases(t, []string{"postgres", "sqlite"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		f := &faulty{AEAD: aead(t, "2026-a")}
		a := newStepApp(t, newStore(t, db, gormstore.Seal(f)))
		calls := 0
		fail := func() ([]byte, error) { return nil, errors.New("no key") }
		charge := func(ctx context.Context) error {
			_, err := core.Call(ctx, "charge", func(context.Context, core.DerivedKey) (string, error) {
				calls++
				f.fail.Store(&fail)
				return iban, nil
			})
			return err
		}
		first := a.post(charge)
		f.fail.Store(nil)
		require.NotEqual(t, http.StatusCreated, first.Code, first.Body)
		require.NotContains(t, tables(t, db), "DE89")
		advance(t, db, time.Hour)
		second := a.post(charge)
		require.Equal(t, "outcome_unknown", second.Header().Get("Idempotency-Problem"), second.Body)
		require.Equal(t, 1, calls)
	})
}
