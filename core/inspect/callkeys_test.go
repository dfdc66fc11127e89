package inspect_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// The page computes what the provider knows a call by, from the operation's id and the call's name alone. It is what the
// handler got, of a call outside and inside of a step. Asking is no event, and tells nobody of another tenant anything.
//
// CONTRACT C-3, X-3, S-5, K-6
func TestCallKeys(t *testing.T) {
	d := newDesk(t)
	var sent, step, inside core.DerivedKey
	d.command("/v1/payouts", "secret-key-7", `{}`, customer, func(w http.ResponseWriter, r *http.Request) {
		var err error
		sent, err = core.DeriveCall(r.Context(), "payout")
		require.NoError(t, err)
		failing(w, r)
	})
	d.command("/v1/refunds", "secret-key-8", `{}`, customer, func(w http.ResponseWriter, r *http.Request) {
		err := core.CallDo(r.Context(), "bank & <co>", func(ctx context.Context, key core.DerivedKey) (err error) {
			step = key
			if inside, err = core.DeriveCall(ctx, "charge"); err != nil {
				return err
			}
			return errors.New("the connection broke off")
		}, core.Dedup(time.Hour))
		require.Error(t, err)
		failing(w, r)
	})
	d.advance(10 * time.Minute)
	payout := "/idem/operations/" + core.Scoping{}.RecordID(customer, "secret-key-7").String()
	refund := "/idem/operations/" + core.Scoping{}.RecordID(customer, "secret-key-8").String()

	p := d.get(payout)
	require.Contains(t, p.text, "Find it at the provider")
	require.NotContains(t, p.text, sent.String(), "nobody has typed a name yet")
	require.NotContains(t, p.html, "<select name=\"inside\"", "it has no steps")
	p = d.get(payout + "?call=payout")
	require.Equal(t, http.StatusOK, p.Code)
	require.Contains(t, p.text, "Key of the call "+sent.String()+" the same as a UUID "+sent.UUID())
	require.NotContains(t, p.text, "if it is the name of a step", "it can have none")
	require.NotContains(t, p.text, "secret-key")
	require.NotContains(t, d.get(payout+"?call=Payout").text, sent.String())

	p = d.get(refund + "?" + url.Values{"call": {"bank & <co>"}}.Encode())
	require.Contains(t, p.text, "if it is the name of a step "+step.String()+" the same as a UUID "+step.UUID())
	require.Contains(t, p.html, `<option value="bank &amp; &lt;co&gt;">`)
	p = d.get(refund + "?" + url.Values{"call": {"charge"}, "inside": {"bank & <co>"}}.Encode())
	require.Contains(t, p.text, "inside the step "+inside.String()+" the same as a UUID "+inside.UUID())
	require.Contains(t, p.html, `<option value="bank &amp; &lt;co&gt;" selected>`)

	for _, query := range []string{"call=", "call=payout+", "call=%ff", "call=a%00b", "call=charge&inside=reserve"} {
		p := d.get(refund + "?" + query)
		require.Equal(t, http.StatusBadRequest, p.Code, query)
		require.Contains(t, p.html, `class="problem"`, query)
		require.NotContains(t, p.html, `class="quotes keys"`, query)
	}
	require.Empty(t, d.kinds(core.EventAnswerRead))
	d.caller = other
	p = d.get(payout + "?call=payout")
	require.Equal(t, http.StatusNotFound, p.Code)
	require.NotContains(t, p.text, sent.String())
}
