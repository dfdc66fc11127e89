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
)

// After a restore a supervisor refuses keys by a command. It says what follows, and the observer knows who has done it, and why.
//
// CONTRACT T-6, S-5
func TestSupervisorsRefuseKeys(t *testing.T) {
	inBubble(t, "by HTTP", func(t *testing.T) {
		a := newOpsApp(t, core.Config{Store: memstore.New(), Routes: core.Routes{
			"POST " + pattern: {Recovery: core.Park, KeyFormat: core.TimedKey, KeyAge: time.Hour},
			"POST /v1/other":  {Recovery: core.Park},
		}}, created)
		chief := core.Principal{Issuer: alice.Issuer, Subject: "chief", Roles: []string{"supervisor"}}
		send := func(p core.Principal, body string) *httptest.ResponseRecorder {
			return written(t, operations.New(a.module).Serve(operations.RefuseKeys, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), p, ""))
		}
		at := func(d time.Duration) string {
			return `{"before":"` + time.Now().Add(d).UTC().Format(time.RFC3339) + `","reason":"a restore"}`
		}
		requireProblem(t, send(operator, at(0)), http.StatusForbidden, core.CodeForbidden)
		for _, body := range []string{``, `{}`, `{"before":"yesterday","reason":"r"}`, `{"reason":"r"}`, at(6 * time.Minute),
			strings.Replace(at(0), "a restore", strings.Repeat("r", 4097), 1)} {
			requireProblem(t, send(chief, body), http.StatusBadRequest, core.CodeBadRequest)
		}
		w := send(chief, at(5*time.Minute))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `"routes":1,"clients":"409 key_too_old`)
		told := a.of(core.EventKeysRefused)
		require.Len(t, told, 1)
		require.Equal(t, "a restore", told[0].Why)
		require.Contains(t, told[0].Who, "chief")
	})
	_, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{KeyFormat: core.TimedKey, KeyAge: time.Hour},
		OperatorRoles: []core.IssuerRole{{Issuer: "i", Role: "operator"}},
		Routes:        core.Routes{"POST /v1/settle": {Recovery: core.Park, Roles: []string{"operator"}}}})
	require.ErrorContains(t, err, "a route of operators takes no timed keys")
}
