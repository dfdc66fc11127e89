package gormstore_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// What is proposed is sealed as an answer is, and bound to its proposal. An instance that only opens carries it out; one
// that cannot open it withdraws it. What cannot be sealed is not proposed.
//
// CONTRACT F-9, X-7
func TestAProposalIsSealed(t *testing.T) {
	onDatabases(t, []string{"postgres", "sqlite"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		sealer := &faulty{AEAD: aead(t, "2026-a")}
		policy := core.Policy{Recovery: core.Park, TwoToSettle: true}
		olga := core.Principal{Issuer: "https://issuer.example", Subject: "olga", Roles: []string{"operator"}}
		otto := olga
		otto.Subject = "otto"
		st := asked(t, try(gormstore.New(db, gormstore.Seal(sealer))).ok(t))
		module := operated(t, st, policy)
		propose := func(key string) (core.ID, operations.Proposal, error) {
			p, err := operations.New(module).Propose(t.Context(), core.Scoping{}.RecordID(alice, key), olga, core.Decision{Why: "seen", Fence: 1,
				Applied: true, Answer: &core.Answer{Status: 201, Header: http.Header{"Location": {"/v1/" + iban}}, Body: []byte(iban)}})
			return core.Scoping{}.RecordID(alice, key), p, err
		}
		keys := []string{"k-1", "k-2", "k-3"}
		for _, key := range keys {
			require.Equal(t, http.StatusBadGateway, serve(t, module, key, answering(http.StatusBadGateway)).Code)
		}
		advance(t, db, time.Hour)
		fail := func() ([]byte, error) { return nil, errors.New("the module is away") }
		sealer.fail.Store(&fail)
		_, _, err := propose("k-1")
		require.ErrorIs(t, err, store.ErrUnsealed)
		require.Zero(t, query[int](t, db, "SELECT count(*) FROM idempotency_note"))
		sealer.fail.Store(nil)
		digests := map[core.ID]string{}
		var ids []core.ID
		for _, key := range keys {
			id, p, err := propose(key)
			require.NoError(t, err)
			digests[id], ids = p.Digest, append(ids, id)
			var box []byte
			require.NoError(t, db.Raw("SELECT decision FROM idempotency_note WHERE record_id = ?", id[:]).Row().Scan(&box))
			require.NotContains(t, string(box), "SUJBTiBERTg5", "in base64")
			require.NotContains(t, string(box), "DE89")
		}
		require.Equal(t, 3, query[int](t, db, "SELECT count(*) FROM idempotency_note WHERE encoding = 2"))
		require.NoError(t, st.Close())

		st = asked(t, try(gormstore.New(db, gormstore.Unseal(aead(t, "2027-a", "2026-a")))).ok(t))
		module = operated(t, st, policy)
		settled := try(operations.New(module).CarryOut(t.Context(), ids[0], operations.Second{By: otto, Why: "r", Fence: 1, Digest: digests[ids[0]]})).ok(t)
		require.Equal(t, iban, string(settled.Answer.Body))
		require.NoError(t, db.Exec("UPDATE idempotency_note SET decision = (SELECT o.decision FROM idempotency_note o "+
			"WHERE o.record_id = ?) WHERE record_id = ?", ids[2][:], ids[1][:]).Error)
		err = err2(operations.New(module).CarryOut(t.Context(), ids[1], operations.Second{By: otto, Why: "r", Fence: 1, Digest: digests[ids[2]]}))
		require.ErrorIs(t, err, store.ErrNotSettleable, "it was moved")
		require.NoError(t, st.Close())

		module = operated(t, newStore(t, db), policy)
		op, problem := operations.New(module).Operator(httptest.NewRequest(http.MethodGet, "/", nil), otto, nil)
		require.Nil(t, problem)
		for _, id := range ids[1:] {
			life := try(op.Life(t.Context(), id)).ok(t)
			require.True(t, life.Proposal.Unread)
			d := operations.Second{By: otto, Why: "r", Fence: 1, Digest: life.Proposal.Digest}
			require.ErrorIs(t, err2(operations.New(module).CarryOut(t.Context(), id, d)), store.ErrNotSettleable)
			require.NoError(t, operations.New(module).Withdraw(t.Context(), id, d))
		}
	})
}
