package inspect_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
)

// Who sends an operation again, and how often, is on its page, and for supervisors on the overview: as far as this instance has
// seen it.
//
// CONTRACT M-2, M-4, S-5
func TestWhoRepeats(t *testing.T) {
	numbers := inspect.NewNumbers()
	d := newDesk(t, func(c *inspect.Config) { c.Numbers = numbers })
	id := d.unknown("k-1", customer)
	d.events = nil // the first attempt is no repeat
	for range 12 {
		d.command("/v1/payouts", "k-1", `{"amount":"1.00"}`, customer, failing)
	}
	d.command("/v1/payouts", "k-2", `{}`, customer, func(http.ResponseWriter, *http.Request) {
		d.command("/v1/payouts", "k-2", `{}`, customer, failing)
	})
	for _, e := range d.kinds(core.EventRefused) {
		numbers.Observe(t.Context(), e)
	}
	p := d.get("/idem/operations/" + id.String())
	require.Regexp(t, `Sent again 12 times, the last time at 20[^.]* UTC, and told outcome_unknown ?\. Seen by this instance`, p.text)
	require.NotContains(t, d.get("/idem/").text, "Who repeats", "it may be of another tenant")

	d.caller = chief
	p = d.get("/idem/")
	require.Contains(t, p.text, "Who repeats")
	require.Contains(t, p.text, "of the last 1\u202f000 keys that met in_flight or outcome_unknown")
	first := strings.Index(p.html, "/idem/operations/"+id.String())
	second := strings.Index(p.html, "/idem/operations/"+core.Scoping{}.RecordID(customer, "k-2").String())
	require.Positive(t, first)
	require.Less(t, first, second, "who repeats most comes first")
}

// A flood of keys costs no more memory than a thousand, and the last ones stay.
func TestRepeatsAreBounded(t *testing.T) {
	numbers := inspect.NewNumbers()
	d := newDesk(t, func(c *inspect.Config) { c.Numbers = numbers })
	d.caller = chief
	event := func(i int) core.Event {
		e := core.Event{Kind: core.EventRefused, Code: core.CodeInFlight, Method: "POST", Route: fmt.Sprint("/v1/", i)}
		binary.BigEndian.PutUint64(e.Operation[:], uint64(i))
		return e
	}
	for i := 1; i <= 5; i++ {
		for range 10 - i {
			numbers.Observe(t.Context(), event(i))
		}
	}
	require.Contains(t, d.get("/idem/").text, "/v1/1 ")
	for i := 6; i <= 1003; i++ {
		numbers.Observe(t.Context(), event(i))
	}
	numbers.Observe(t.Context(), core.Event{Kind: core.EventRefused, Code: core.CodeKeyReused, Operation: core.ID{9}})
	numbers.Observe(t.Context(), core.Event{Kind: core.EventRefused, Code: core.CodeInFlight})
	p := d.get("/idem/")
	require.NotContains(t, p.text, "/v1/3 ", "the first ones are forgotten")
	require.Contains(t, p.text, "/v1/4 ")
	require.Contains(t, p.text, "/v1/1003 ", "of those that came once, the last one")
}
