package inspect_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// The page of an operation shows, folded, how its attempts have ended: also one that nobody has taken over since its process
// died. One that has succeeded at once has nothing of this.
//
// CONTRACT X-10
func TestHowAttemptsHaveEnded(t *testing.T) {
	const folded = `<details class="attempts">`
	d := newDesk(t)
	operation := func(p core.Principal, key string) string {
		return d.get("/idem/operations/" + core.Scoping{}.RecordID(p, key).String()).html
	}
	d.command("/v1/payouts", "paid", `{}`, customer, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})
	require.NotContains(t, operation(customer, "paid"), folded)

	d.unknown("payout-1", customer)
	page := operation(customer, "payout-1")
	require.Contains(t, page, `<p class="empty">There is none.</p>`, "an answer")
	require.Contains(t, page, folded+"<summary>How attempts have ended: 1</summary>")
	require.Contains(t, page, "ended without proof of what it did: answered 500.")

	refund := func(w http.ResponseWriter, r *http.Request) {
		_ = core.CallDo(r.Context(), "refund", func(context.Context, core.DerivedKey) error { return errAway },
			core.Dedup(time.Hour))
		w.WriteHeader(http.StatusBadGateway)
	}
	d.command("/v1/refunds", "refund-1", `{}`, customer, refund)
	d.advance(time.Minute)
	r := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader(`{}`))
	r.Header.Set("Idempotency-Key", "refund-1")
	r, reply := d.module.Admit(r, "/v1/refunds", customer)
	require.Nil(t, reply)
	attempt, reply := d.module.Begin(r, "/v1/refunds", customer)
	require.Nil(t, reply)
	attempt.Capture(httptest.NewRecorder())
	defer attempt.Panicked(http.Header{})
	page = operation(customer, "refund-1")
	require.Contains(t, page, "How attempts have ended: 1<")
	require.Contains(t, page, `<td data-name="How">answered 502</td>`)
	require.Contains(t, page, `<td data-name="Instance" class="id">`+d.module.Instance().String()+"</td>")
	require.NotContains(t, page, "process gone")
	d.advance(time.Hour)
	page = operation(customer, "refund-1")
	require.Contains(t, page, "How attempts have ended: 2<")
	require.Contains(t, page, `<td data-name="How">process gone</td>`)
}
