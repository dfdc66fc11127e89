package core_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// A settlement is done as its body says or refused, and its answer is one that a server can send: a status of a
// recorded answer, and headers of the allowlist that are header values.
//
// CONTRACT
func FuzzSettle(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `null`, `{"outcome":"applied","reason":"r"}`, `{"outcome":"not_applied","reason":"r"}`,
		`{"outcome":"not_applied","reason":"r","answer":{}}`, `{"outcome":"applied","reason":" "}`,
		`{"outcome":"applied","reason":"r","answer":{"id":"1"}}`, `{"outcome":"applied","reason":"r","answer":[1,2]}`,
		`{"outcome":"applied","reason":"r","answer":{"status":402,"headers":{"Location":"/1"},"body":"text"}}`,
		`{"outcome":"applied","reason":"r","answer":{"status":200,"headers":{"content-type":"text/plain"},"body":"text"}}`,
		`{"outcome":"applied","reason":"r","answer":{"status":500}}`, `{"outcome":"applied","reason":"r","answer":{"status":1e2}}`,
		`{"outcome":"applied","reason":"r","answer":{"status":200,"headers":{"Location":"a\u0000b"}}}`,
		`{"outcome":"applied","reason":"r","answer":{"status":200,"headers":{"Set-Cookie":"a=b"}}}`,
		`{"outcome":"applied","reason":"r","extra":1}`, `{"outcome":"applied","outcome":"not_applied","reason":"r"}`,
		`{"outcome":"applied","reason":"r","fence":1,"propose":true}`, `{"digest":"0","reason":"r","fence":1,"withdraw":true}`,
	} {
		f.Add(body)
	}
	operator := core.Principal{Issuer: alice.Issuer, Subject: "olga", Roles: []string{"operator"}}
	f.Fuzz(func(t *testing.T, body string) {
		now := time.Now()
		st := memstore.New(memstore.WithClock(func() time.Time { return now }))
		module, err := core.New(core.Config{Store: st, Policy: core.Policy{Recovery: core.Park},
			OperatorRoles: []core.IssuerRole{{Issuer: alice.Issuer, Role: "operator"}}})
		require.NoError(t, err)
		id := core.Scoping{}.RecordID(alice, "key")
		_, err = st.Claim(t.Context(), store.Claim{ID: id, Realm: core.Scoping{}.PrincipalRealm(alice), Recovery: core.Park, Lease: time.Second, Deadline: time.Second})
		require.NoError(t, err)
		now = now.Add(time.Minute)

		reply := operations.New(module).Serve(operations.Settle, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), operator, id.String())
		rec, err := st.Find(t.Context(), id, store.Viewer{All: true})
		require.NoError(t, err)
		history := st.Settlements(id)
		if reply.Status != http.StatusOK {
			require.Contains(t, []int{http.StatusAccepted, http.StatusBadRequest, http.StatusConflict}, reply.Status)
			require.Equal(t, store.Unknown, rec.State())
			require.Empty(t, history)
			return
		}
		require.Len(t, history, 1)
		require.NotEmpty(t, strings.TrimSpace(history[0].Why))
		if rec.State() == store.Free {
			return
		}
		require.Equal(t, store.Completed, rec.State())
		require.True(t, 200 <= rec.Answer.Status && rec.Answer.Status <= 499, rec.Answer.Status)
		for name, values := range rec.Answer.Header {
			require.NotEqual(t, "Set-Cookie", name)
			require.False(t, strings.ContainsFunc(values[0], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }),
				"%s: %q", name, values[0])
		}
	})
}
