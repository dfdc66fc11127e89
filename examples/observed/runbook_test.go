package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/apptest"
)

const runbook = "../../docs/operations.md"

// followRunbook does what docs/operations.md says with a payout that is unknown: find it, settle it. Then its client gets
// the answer of the settlement.
func followRunbook(t *testing.T, p *apptest.Process, payout apptest.Request) {
	t.Helper()
	var open []struct{ ID, Route, State string }
	find := commands(t, p, runbook, "Find it", "")
	do(t, p, find[0], http.StatusOK).Decode(t, &open)
	require.Len(t, open, 1)
	require.Equal(t, "/v1/payouts", open[0].Route)
	require.JSONEq(t, "[]", do(t, p, find[1], http.StatusOK).Body)
	find = commands(t, p, runbook, "Find it", open[0].ID)
	require.Contains(t, do(t, p, find[2], http.StatusOK).Body, `"state":"unknown"`)
	require.Contains(t, do(t, p, find[3], http.StatusOK).Body, `"operations":[]`)

	// The provider's ledger has the call under the key that the inspector computes.
	id, err := core.ParseID(open[0].ID)
	require.NoError(t, err)
	var ledger []struct{ Kind, Operation, Key string }
	do(t, p, commands(t, p, runbook, "Understand it", "")[0], http.StatusOK).Decode(t, &ledger)
	require.Contains(t, ledger, struct{ Kind, Operation, Key string }{"provider", open[0].ID, id.DeriveCall("payout").String()})
	page := apptest.Request{Method: http.MethodGet, Path: "/idem/operations/" + open[0].ID + "?call=payout",
		Header: http.Header{"Cookie": {"idem-operator=" + p.Tokens["operator-1"]}}}
	require.Contains(t, do(t, p, page, http.StatusOK).Body, ">"+id.DeriveCall("payout").String()+"<")

	settle := commands(t, p, runbook, "Settle it", open[0].ID)
	require.Len(t, settle, 2)
	// Until the deadline has passed, it is 409 not_settleable.
	settled := p.Until(t, &settle[0], func(r apptest.Response) bool { return r.Status != http.StatusConflict })
	require.Equal(t, http.StatusOK, settled.Status, settled.Body)
	require.Equal(t, settled.Body, do(t, p, settle[0], http.StatusOK).Body, "sent twice, made once")
	require.Equal(t, "key_reused", do(t, p, settle[1], http.StatusConflict).Code(), "a settlement is final")

	require.Equal(t, "0", openPayouts(t, p))
	answer := do(t, p, payout, http.StatusCreated)
	require.JSONEq(t, `{"id": "out_1", "status": "paid"}`, answer.Body)
	require.Equal(t, "/v1/payouts/out_1", answer.Header.Get("Location"))
}

var (
	curlLine   = regexp.MustCompile(`(?m)^ *curl -s "?\$SHOP([^" ]+)"?((?:\\\n|[^\n']|'[^']*')*)$`)
	curlHeader = regexp.MustCompile(`-H "([^":]+): ([^"]+)"`)
	curlBody   = regexp.MustCompile(`-d '([^']*)'`)
)

// commands are the lines with curl in a chapter of a page, for a shell that knows SHOP, SELLER, OPERATOR and OPERATION.
func commands(t *testing.T, p *apptest.Process, page, chapter, operation string) (requests []apptest.Request) {
	t.Helper()
	_, text, found := strings.Cut(content(t, page), "# "+chapter+"\n")
	require.True(t, found, chapter)
	text, _, _ = strings.Cut(text, "\n#")
	for _, line := range curlLine.FindAllStringSubmatch(text, -1) {
		known := strings.NewReplacer("$SELLER", p.Tokens["seller-1"], "$OPERATOR", p.Tokens["operator-1"], "$OPERATION", operation)
		r := apptest.Request{Method: http.MethodGet, Path: known.Replace(line[1]), Header: http.Header{}}
		for _, h := range curlHeader.FindAllStringSubmatch(line[0], -1) {
			r.Header.Set(h[1], known.Replace(h[2]))
		}
		if body := curlBody.FindStringSubmatch(line[0]); body != nil {
			r.Method, r.Body = http.MethodPost, body[1]
		}
		requests = append(requests, r)
	}
	require.NotEmpty(t, requests, chapter)
	return requests
}
