package inspect_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
)

// A marked operation tells what is known of it, and no more. Only supervisors see it until its repeat has said whose it is.
//
// CONTRACT F-4, S-5, X-7
func TestMarkedOperation(t *testing.T) {
	d := newDesk(t)
	id := core.Scoping{}.RecordID(customer, "lost-1")
	_, err := operations.New(d.module).Mark(t.Context(), []core.ID{id}, "chief", "line 4 of the provider's list")
	require.NoError(t, err)
	path := "/idem/operations/" + id.String()
	require.Equal(t, http.StatusNotFound, d.get(path).Code)
	require.NotContains(t, d.get("/idem/operations").text, "(marked)")

	d.caller = chief
	require.Contains(t, d.get("/idem/operations").text, "_OTHER (marked)")
	require.Contains(t, d.get("/idem/history").text, "line 4")
	text := d.get(path).text
	for _, want := range []string{"A provider knows it, and the database has lost it", "Marked", "line 4", "Settle this operation"} {
		require.Contains(t, text, want)
	}
	for _, never := range []string{"The first attempt began", "ended without proof", "deadline passed", "Given up"} {
		require.NotContains(t, text, never)
	}

	p, _ := d.note(id, "chief is on it")
	require.Equal(t, http.StatusSeeOther, p.Code, p.text)
	require.Contains(t, d.get(path).text, "chief is on it")

	d.command("/v1/payouts", "lost-1", `{"amount":"1.00"}`, customer, ok)
	d.caller = olga
	text = d.get(path).text
	require.Contains(t, text, "/v1/payouts")
	require.NotContains(t, text, "(marked)")
	require.Equal(t, http.StatusSeeOther, d.settle(id, d.form(id, "not_applied", "seen")).Code)
	text = d.get(path).text
	require.Less(t, strings.Index(text, "Marked"), strings.Index(text, "Settled as not applied"))
	d.command("/v1/payouts", "lost-1", `{"amount":"1.00"}`, customer, ok)
	text = d.get(path).text
	require.Contains(t, text, "The first attempt began, with fence 3")
	require.Contains(t, text, "That was an earlier operation with the same key.")
	require.NotContains(t, text, "and the key was free again")
}
