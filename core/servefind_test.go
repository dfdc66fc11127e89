package core_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
)

// An operator finds operations by a reference, or by the client's key and its caller: those of its own realm, without their
// answers. Nobody else does.
//
// CONTRACT S-5, K-6, M-7
func TestServeFind(t *testing.T) {
	a := newOpsApp(t, core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}}, func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, core.Reference(r.Context(), "charge", "ch_7"))
		created(w, r)
	})
	require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	id := core.Scoping{}.RecordID(alice, "k-1").String()
	find := func(p core.Principal, body string) *httptest.ResponseRecorder {
		return written(t, operations.New(a.module).Serve(operations.Find, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), p, ""))
	}
	byKey := `{"principal":{"issuer":"` + alice.Issuer + `","subject":"alice"},"key":"k-1"}`
	for _, body := range []string{`{"text":"ch_7"}`, `{"text":"` + id[:8] + `"}`, `{"text":"` + id + `"}`, byKey} {
		w := find(operator, body)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `"id":"`+id+`"`)
		require.Contains(t, w.Body.String(), `"answer":{"status":201}`)
		require.Empty(t, a.of(core.EventAnswerRead), "no answer is read")

		stranger := core.Principal{Issuer: "elsewhere", Subject: "olga", Roles: []string{"operator"}}
		require.Contains(t, find(stranger, body).Body.String(), `"operations":[]`, "another realm's do not exist")
		requireProblem(t, find(alice, body), http.StatusForbidden, core.CodeForbidden)
		requireProblem(t, find(core.Principal{}, body), http.StatusUnauthorized, core.CodeUnauthenticated)
	}
	require.Contains(t, find(operator, strings.Replace(byKey, "k-1", "k-2", 1)).Body.String(), `"operations":[]`)
	require.Contains(t, find(operator, `{"text":"ch_8"}`).Body.String(), `"as":["a reference"]`)
	for _, body := range []string{``, `{}`, `{"text":""}`, `{"text":"a","key":"k"}`, `{"key":"k"}`, `{"text":"a","text":"b"}`,
		strings.TrimSuffix(byKey, `}`) + `,"call":"c"}`, strings.TrimSuffix(byKey, `}`) + `,"text":"c"}`, `{"txt":"a"}`,
		`{"principal":{"issuer":"i"},"key":"k"}`, strings.Replace(byKey, "k-1", "no key", 1), `{"text":"a","call":"` + strings.Repeat("c", 300) + `"}`} {
		w := find(operator, body)
		require.Equal(t, http.StatusBadRequest, w.Code, body)
		require.NotContains(t, w.Body.String(), "no key")
	}
}
