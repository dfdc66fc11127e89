package gormstore_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// Guarded commands of many operators, each in its own transaction, carry one proposal out at once: one does, and its answer
// is recorded with the settlement. The others are told, and their keys are free. Beside them one withdraws.
//
// CONTRACT
func TestManyCarryAProposalOut(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		paying := operated(t, st, core.Policy{Recovery: core.Park, TwoToSettle: true})
		settling := operated(t, st, core.Policy{Recovery: core.Rollback, TwoToSettle: true})
		for round := range 4 {
			key := fmt.Sprint("k-", round)
			require.Equal(t, http.StatusBadGateway, serve(t, paying, key, answering(http.StatusBadGateway)).Code)
			id := theUnknown(t, db, st)
			// settle is a guarded command of an operator.
			settle := func(who, key, body string) *httptest.ResponseRecorder {
				p := core.Principal{Issuer: "https://issuer.example", Subject: who, Roles: []string{"operator"}}
				return serveAs(t, settling, p, key, body, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_ = operations.New(settling).Serve(operations.Settle, r, p, id.String()).WriteTo(w)
				}))
			}
			require.Equal(t, http.StatusConflict, settle("olga", key+"-alone", `{"outcome":"applied","reason":"r","fence":1}`).Code)
			w := settle("olga", key+"-propose", `{"outcome":"applied","answer":{"id":"p-1"},"reason":"r","fence":1,"propose":true}`)
			require.Equal(t, http.StatusAccepted, w.Code, w.Body)
			var view struct{ Proposal struct{ Digest string } }
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &view))
			body := `{"fence":1,"digest":"` + view.Proposal.Digest + `","reason":"r"`

			answers := make([]*httptest.ResponseRecorder, 6)
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() {
					more := `}`
					if i == 0 {
						more = `,"withdraw":true}`
					}
					answers[i] = settle(fmt.Sprint("otto-", i), fmt.Sprint(key, "-", i), body+more)
				})
			}
			all.Wait()
			done := 0
			for _, w := range answers {
				if w.Code == http.StatusOK {
					done++
				} else {
					require.Equal(t, http.StatusConflict, w.Code, w.Body)
				}
			}
			require.Equal(t, 1, done)
			if answers[0].Code == http.StatusOK { // withdrawn: it is proposed once more, and carried out
				require.Zero(t, query[int64](t, db, "SELECT count(*) FROM idempotency_settlement WHERE record_id = ?", id[:]))
				w = settle("otto", key+"-again", `{"outcome":"applied","reason":"r","fence":1,"propose":true}`)
				require.Equal(t, http.StatusAccepted, w.Code, w.Body)
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &view))
				body = `{"fence":1,"digest":"` + view.Proposal.Digest + `","reason":"r"`
				require.Equal(t, http.StatusOK, settle("olga", key+"-second", body+`}`).Code)
			}
			require.EqualValues(t, 1, query[int64](t, db, "SELECT count(*) FROM idempotency_settlement WHERE record_id = ?", id[:]))
			rec := try(st.Find(t.Context(), id, store.Viewer{All: true})).ok(t)
			require.Equal(t, store.Completed, rec.State())
		}
		require.Zero(t, query[int64](t, db, "SELECT count(*) FROM idempotency_note WHERE kind = 1"))
	})
}

// What a newer release has kept otherwise is not misread: it is carried out by nobody here, and can be withdrawn.
//
// CONTRACT X-7
func TestAProposalOfANewerRelease(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		module := operated(t, st, core.Policy{Recovery: core.Park, TwoToSettle: true})
		require.Equal(t, http.StatusBadGateway, serve(t, module, "k-1", answering(http.StatusBadGateway)).Code)
		id := theUnknown(t, db, st)
		olga := core.Principal{Issuer: "https://issuer.example", Subject: "olga", Roles: []string{"operator"}}
		p := try(operations.New(module).Propose(t.Context(), id, olga, core.Decision{Why: "r", Fence: 1, Applied: true,
			Answer: &core.Answer{Status: 201, Body: []byte("secret")}})).ok(t)
		require.NoError(t, db.Exec("UPDATE idempotency_note SET encoding = 99").Error)
		otto := olga
		otto.Subject = "otto"
		settle := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"fence":1,"digest":"`+p.Digest+`","reason":"r"}`))
		require.Equal(t, http.StatusConflict, operations.New(module).Serve(operations.Settle, settle, otto, id.String()).Status)
		show := operations.New(module).Serve(operations.Show, httptest.NewRequest(http.MethodGet, "/", nil), otto, id.String())
		var view struct {
			Proposal struct {
				Digest string
				Unread bool
			}
		}
		require.NoError(t, json.Unmarshal(show.Body, &view))
		require.True(t, view.Proposal.Unread)
		d := operations.Second{By: otto, Why: "r", Fence: 1, Digest: view.Proposal.Digest}
		require.ErrorContains(t, err2(operations.New(module).CarryOut(t.Context(), id, d)), "cannot read the proposal")
		require.NoError(t, operations.New(module).Withdraw(t.Context(), id, d))
		require.Zero(t, query[int64](t, db, "SELECT count(*) FROM idempotency_note WHERE kind = 1"))
	})
}
