package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSoak is the short form of the long run. In the end it breaks three things on purpose, which must be found.
//
// CONTRACT M-1, M-3, M-6, R-2, R-5, X-2, X-4, D-1, F-1, F-2
func TestSoak(t *testing.T) {
	o, err := parse([]string{"-requests", "1000", "-faults", "400ms"}, io.Discard)
	require.NoError(t, err)
	s := start(t, o)
	s.load()
	s.callRoll()
	var out strings.Builder
	err = s.report(&out)
	t.Logf("seed %d\n%s", o.seed, &out)
	require.NoError(t, err)

	ends := s.ends()
	require.Equal(t, s.told.begun(), ends["carried out"]+ends["refused"]+ends["unknown"]+ends["undone every time"])
	require.Positive(t, ends["undone every time"])
	require.Positive(t, s.settled.Load(), "parked refunds that were settled")
	require.Greater(t, ends["carried out"], 250)
	require.Positive(t, ends["refused"])
	front, back := harness.Connections(s.instances)
	for name, count := range map[string]int{
		"faults": int(s.nemesis.Total.Load()), "clients' connections cut": front.Cut, "doubled": front.Doubled,
		"database connections cut": back.Cut, "clients that hung up": int(s.wire.hungUp.Load()),
	} {
		require.Positive(t, count, name)
	}
	findsWhatIsWrong(t, s)
}

// findsWhatIsWrong deletes the record of one payment and the money of another, and changes the answer of a third.
func findsWhatIsWrong(t *testing.T, s *soak) {
	var paid []intent
	for n := range s.told.begun() {
		if i := s.intent(n); i.Kind == payment && i.Method == "pm_ok" {
			paid = append(paid, i)
		}
	}
	s.database.Exec(
		`DELETE FROM idempotency_record WHERE encode(id, 'hex') = '`+paid[0].Operation()+`'`,
		`DELETE FROM ledger WHERE operation_id = '`+paid[1].Operation()+`'`,
		`UPDATE idempotency_record SET body = body || ' '::bytea WHERE encode(id, 'hex') = '`+paid[2].Operation()+`'`,
	)
	s.callRoll()
	var out strings.Builder
	require.EqualError(t, s.report(&out), fmt.Sprintf("seed %d: 1 duplicates, 1 losses, 2 contradictions", s.seed))
	for _, text := range []string{
		paid[0].String() + ": carried out 2 times, booked 2 times", "the command had been carried out before",
		paid[1].String() + ": carried out 1 times, booked 1 times, in the ledger: []",
		"another answer was given before",
	} {
		require.Contains(t, out.String(), text)
	}
	require.Contains(t, out.String(), paid[2].Operation())
	require.NotContains(t, out.String(), paid[3].Operation())
}

func TestHear(t *testing.T) {
	s := &soak{options: options{seed: 1, requests: 1000}, refunds: []string{"/refund"}}
	var pay, out intent
	for n := range 100 {
		switch i := s.intent(n); {
		case i.Method != "pm_ok":
		case i.Kind == payment:
			pay = i
		case i.Kind == payout:
			out = i
		}
	}
	created := func(i intent) answer {
		return answer{Status: 201, Result: "created", Body: `{"amount":"` + i.Amount + `"}`}
	}
	reused := func(i intent) answer {
		return answer{Status: 201, Result: "reused", Body: `{"amount":"` + i.Amount + `"}`}
	}
	refused := func(code core.Code) answer { return answer{Status: 409, Code: code} }
	for name, test := range map[string]struct {
		intent  intent
		answers []answer // the intent's own command, one after the other
		wrong   bool     // the last one
	}{
		"created":                    {pay, []answer{created(pay)}, false},
		"created, reused":            {pay, []answer{created(pay), reused(pay)}, false},
		"created twice":              {pay, []answer{created(pay), created(pay)}, true},
		"another answer":             {pay, []answer{created(pay), {Status: 201, Result: "reused", Body: created(pay).Body + " "}}, true},
		"another location":           {pay, []answer{created(pay), {Status: 201, Result: "reused", Location: "/x", Body: created(pay).Body}}, true},
		"another amount":             {pay, []answer{created(out)}, true},
		"another status":             {pay, []answer{{Status: 402, Result: "created"}}, true},
		"in flight, created":         {pay, []answer{refused("in_flight"), created(pay)}, false},
		"created, in flight":         {pay, []answer{created(pay), refused("in_flight")}, true},
		"key reused":                 {pay, []answer{refused("key_reused")}, true},
		"unknown payment":            {pay, []answer{refused("outcome_unknown")}, true},
		"unknown payout":             {out, []answer{refused("outcome_unknown")}, false},
		"unknown, known":             {out, []answer{refused("outcome_unknown"), reused(out)}, false},
		"known, unknown":             {out, []answer{created(out), refused("outcome_unknown")}, true},
		"not found":                  {pay, []answer{{Status: 404}}, true},
		"unavailable, also later on": {pay, []answer{{Status: 503}, created(pay), {Status: 503}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			told := told{intents: make([]memory, 100)}
			for n, a := range test.answers {
				found := told.hear(told.of(test.intent.N), test.intent, true, a)
				require.Equal(t, test.wrong && n == len(test.answers)-1, found != "", found)
			}
		})
	}
	told := told{intents: make([]memory, 100)}
	require.Empty(t, told.hear(memory{}, pay, false, refused("key_reused")))
	require.NotEmpty(t, told.hear(memory{}, pay, false, created(pay)))
	require.NotEmpty(t, told.hear(memory{}, pay, false, refused("in_flight")))

	// An answer that overtakes another one does not contradict it.
	before := told.of(out.N)
	require.Empty(t, told.hear(before, out, true, created(out)))
	require.Empty(t, told.hear(before, out, true, refused("outcome_unknown")))
	require.Equal(t, known, told.of(out.N).end)
}

func TestJudge(t *testing.T) {
	ok := func(k harness.Kind) intent { return intent{Kind: k, Amount: "1.00", Method: "pm_ok"} }
	did := func(k harness.Kind, runs, booked, charges, calls int) effects {
		e := effects{carriedOut: map[string]int{tables[k]: runs, "ledger": booked}, charges: charges, calls: calls}
		if booked > 0 {
			e.entries = []string{string(k) + " 1.00"}
		}
		return e
	}
	for name, test := range map[string]struct {
		intent  intent
		end     end
		effects effects
		wrong   []wrong
	}{
		"payment":                  {ok(payment), known, did(payment, 1, 1, 0, 0), nil},
		"refund":                   {ok(refund), known, did(refund, 1, 1, 1, 3), nil},
		"payout":                   {ok(payout), known, did(payout, 1, 1, 1, 1), nil},
		"payment run twice":        {ok(payment), known, did(payment, 2, 2, 0, 0), []wrong{duplicate}},
		"refund booked twice":      {ok(refund), known, did(refund, 1, 2, 1, 1), []wrong{duplicate}},
		"refund charged twice":     {ok(refund), known, did(refund, 1, 1, 2, 2), []wrong{duplicate}},
		"payout called twice":      {ok(payout), unknown, did(payout, 0, 0, 1, 2), []wrong{duplicate}},
		"payment charged":          {ok(payment), known, did(payment, 1, 1, 1, 1), []wrong{duplicate}},
		"payment lost":             {ok(payment), known, did(payment, 0, 0, 0, 0), []wrong{loss}},
		"payout not charged":       {ok(payout), known, did(payout, 1, 1, 0, 0), []wrong{loss}},
		"refund not booked":        {ok(refund), known, did(refund, 1, 0, 1, 1), []wrong{loss}},
		"no end":                   {ok(refund), open, did(refund, 1, 0, 1, 1), []wrong{loss}},
		"unknown, nothing done":    {ok(payout), unknown, did(payout, 0, 0, 0, 0), nil},
		"unknown, done":            {ok(payout), unknown, did(payout, 1, 1, 1, 1), nil},
		"unknown, booked for free": {ok(payout), unknown, did(payout, 1, 1, 0, 0), []wrong{contradiction}},
		"refused":                  {intent{Kind: refund, Method: "pm_declined"}, known, did(refund, 1, 0, 0, 0), nil},
		"refused, and booked":      {intent{Kind: payment, Amount: "1.00", Method: "pm_declined"}, known, did(payment, 1, 1, 0, 0), []wrong{contradiction}},
		"ended itself":             {intent{Kind: payment, Amount: "1.00", Method: "pm_commit"}, unknown, did(payment, 1, 1, 0, 0), nil},
		"ended itself, again":      {intent{Kind: payment, Amount: "1.00", Method: "pm_rollback"}, unknown, did(payment, 2, 2, 0, 0), nil},
		"stuck":                    {intent{Kind: refund, Amount: "1.00", Method: "pm_stuck"}, known, did(refund, 1, 0, 1, 10), nil},
		"stuck, and booked":        {intent{Kind: refund, Amount: "1.00", Method: "pm_stuck"}, known, did(refund, 1, 1, 1, 1), []wrong{contradiction}},
		"stuck, charged twice":     {intent{Kind: refund, Amount: "1.00", Method: "pm_stuck"}, known, did(refund, 1, 0, 2, 2), []wrong{duplicate, contradiction}},
		"hung":                     {intent{Kind: payment, Amount: "1.00", Method: "pm_hang"}, open, did(payment, 0, 0, 0, 0), nil},
		"hung, and booked":         {intent{Kind: payment, Amount: "1.00", Method: "pm_hang"}, open, did(payment, 1, 1, 0, 0), []wrong{contradiction}},
		"another amount":           {intent{Kind: payment, Amount: "2.00", Method: "pm_ok"}, known, did(payment, 1, 1, 0, 0), []wrong{contradiction}},
	} {
		t.Run(name, func(t *testing.T) {
			var found []wrong
			for what := range test.effects.judge(test.intent, test.end) {
				found = append(found, what)
			}
			require.ElementsMatch(t, test.wrong, found)
		})
	}
}

func TestOptions(t *testing.T) {
	for _, args := range []string{"-requests 0", "-clients 0", "-faults -1s", "more"} {
		require.Error(t, run(t.Context(), strings.Fields(args), io.Discard), args)
	}
	require.NoError(t, run(t.Context(), []string{"-h"}, io.Discard))
}
