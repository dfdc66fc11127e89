package histories

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/harness"
	"github.com/auth19/idem/internal/pgtest"
)

// TestLongRun sends many requests under faults, and counts. In the end it breaks three things on purpose, which must be found.
//
// CONTRACT M-1, M-3, M-6, R-2, R-5, X-2, X-4, D-1, F-1, F-2
func TestLongRun(t *testing.T) {
	require.GreaterOrEqual(t, *requestsFlag, int64(100), "-requests")
	seed := chosenSeed()
	w := newWorld(t, seed, []*pgtest.Cluster{pgtest.Own(t)}, harness.Build(t, "gin"), harness.Build(t, "echo"))
	l := newLongRun(t, w, options{seed: seed, clients: cmp.Or(*clientsFlag, 64), faults: *faultsFlag, requests: *requestsFlag})
	l.load()
	var out strings.Builder
	err := l.report(&out)
	t.Logf("seed %d\n%s", seed, &out)
	require.NoError(t, err)

	ends, _ := l.ends()
	require.Equal(t, l.begun(), ends["carried out"]+ends["refused"]+ends["unknown"]+ends["undone every time"])
	require.Greater(t, ends["carried out"], l.begun()/4)
	require.Greater(t, l.begun(), l.o.clients, "each client has begun more than one")
	require.Positive(t, ends["refused"])
	require.Positive(t, ends["undone every time"])
	require.Positive(t, l.settled.Load(), "parked refunds that were settled")
	if faults := l.nemesis.total(); faults != nil {
		for _, name := range []string{"client's connection cut", "client's connection doubled", "database connection cut"} {
			require.Positive(t, faults[name], name)
		}
		require.NotEmpty(t, l.nemesis.struck)
		require.Positive(t, l.hungUp.Load())
	}
	findsWhatIsWrong(t, l)
}

// findsWhatIsWrong deletes the record of one payment and the money of another, and changes the answer of a third.
func findsWhatIsWrong(t *testing.T, l *longRun) {
	t.Helper()
	var paid []intent
	for n := 0; len(paid) < 4; n++ {
		if i := l.intent(n); i.kind == harness.Payment && i.method == "pm_ok" {
			paid = append(paid, i)
		}
	}
	l.world.databases[0].Exec(
		`DELETE FROM idempotency_record WHERE encode(id, 'hex') = '`+paid[0].operation()+`'`,
		`DELETE FROM ledger WHERE operation_id = '`+paid[1].operation()+`'`,
		`UPDATE idempotency_record SET body = body || ' '::bytea WHERE encode(id, 'hex') = '`+paid[2].operation()+`'`,
	)
	l.each(1, paid[3].n+1, l.carryOut)
	var out strings.Builder
	require.EqualError(t, l.report(&out), fmt.Sprintf("seed %d: 1 duplicates, 1 losses, 2 contradictions", l.seed))
	for _, text := range []string{
		paid[0].String() + ": carried out 2 times, booked 2 times", "the command had been carried out before",
		paid[1].String() + ": carried out 1 times, booked 1 times, in the ledger: []",
		"another answer was given before",
	} {
		require.Contains(t, out.String(), text)
	}
	require.Contains(t, out.String(), paid[2].operation())
	require.NotContains(t, out.String(), paid[3].operation())
}

func TestHear(t *testing.T) {
	pay := intent{kind: harness.Payment, amount: "1.00", method: "pm_ok"}
	out := intent{n: 1, kind: harness.Payout, amount: "2.00", method: "pm_ok"}
	self := intent{kind: harness.Payment, amount: "1.00", method: "pm_commit"}
	mine, other := `{"amount":"1.00"}`, `{"amount":"2.00"}`
	for name, test := range map[string]struct {
		intent  intent
		answers []*Answer // the intent's own command, one after the other
		wrong   bool      // the last one
	}{
		"created":                    {pay, []*Answer{created(mine)}, false},
		"created, reused":            {pay, []*Answer{created(mine), reused(mine)}, false},
		"created twice":              {pay, []*Answer{created(mine), created(mine)}, true},
		"another answer":             {pay, []*Answer{created(mine), {Status: 201, Result: "reused", Body: mine + " "}}, true},
		"another location":           {pay, []*Answer{created(mine), {Status: 201, Result: "reused", Body: mine, header: http.Header{"Location": {"/x"}}}}, true},
		"another amount":             {pay, []*Answer{created(other)}, true},
		"another status":             {pay, []*Answer{{Status: 402, Result: "created"}}, true},
		"in flight, created":         {pay, []*Answer{inFlight, created(mine)}, false},
		"created, in flight":         {pay, []*Answer{created(mine), inFlight}, true},
		"key reused":                 {pay, []*Answer{keyReused}, true},
		"unknown payment":            {pay, []*Answer{parked}, true},
		"unknown payout":             {out, []*Answer{parked}, false},
		"unknown, known":             {out, []*Answer{parked, reused(other)}, false},
		"known, unknown":             {out, []*Answer{created(other), parked}, true},
		"ended itself":               {self, []*Answer{parked, created(mine)}, true},
		"not found":                  {pay, []*Answer{{Status: 404}}, true},
		"unavailable, also later on": {pay, []*Answer{away, created(mine), away}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := count{told: make([]memory, 2)}
			for n, a := range test.answers {
				found := c.hear(c.of(test.intent.n), test.intent, true, *a)
				require.Equal(t, test.wrong && n == len(test.answers)-1, found != "", found)
			}
		})
	}
	c := count{told: make([]memory, 2)}
	require.Empty(t, c.hear(memory{}, pay, false, *keyReused))
	require.NotEmpty(t, c.hear(memory{}, pay, false, *created(mine)))
	require.NotEmpty(t, c.hear(memory{}, pay, false, *inFlight))

	// An answer that overtakes another one does not contradict it.
	before := c.of(out.n)
	require.Empty(t, c.hear(before, out, true, *created(other)))
	require.Empty(t, c.hear(before, out, true, *parked))
	require.Equal(t, endKnown, c.of(out.n).end)
}

// An unknown payout becomes free by its owner's word alone: what a client is told after that is no contradiction.
//
// CONTRACT X-2
func TestUnknownBecomesFreeByItsOwnersWord(t *testing.T) {
	payout := intent{kind: harness.Payout, amount: "2.00", method: "pm_ok"}
	refund := intent{kind: harness.Refund, amount: "2.00", method: "pm_ok"}
	tell := func(i intent, answers ...*Answer) *count {
		c := &count{told: make([]memory, 1)}
		for _, a := range answers {
			c.record(i, Op{Kind: Request, Command: i.command(false)}, func(o *Op) { o.Answer = a })
		}
		return c
	}
	by := func(operation string) func(string) bool { return func(o string) bool { return o == operation } }
	for name, test := range map[string]struct {
		count *count
		freed func(string) bool
		wrong int
	}{
		"freed by its owner":           {tell(payout, parked, inFlight, created(`{"amount":"2.00"}`)), by(payout.operation()), 0},
		"without its owner's word":     {tell(payout, parked, inFlight), by("nobody"), 1},
		"another operation was freed":  {tell(payout, parked, inFlight), by(intent{key: "another"}.operation()), 1},
		"known, and its owner's word":  {tell(payout, created(`{"amount":"2.00"}`), inFlight), by(payout.operation()), 1},
		"a parked refund has no owner": {tell(refund, parked, inFlight), by(refund.operation()), 1},
		"and nothing in doubt":         {tell(payout, parked, parked), by("nobody"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			test.count.resolve(test.freed)
			require.Equal(t, test.wrong, test.count.wrongs[contradiction])
		})
	}
}

func TestJudge(t *testing.T) {
	ok := func(k harness.Kind) intent { return intent{kind: k, amount: "1.00", method: "pm_ok"} }
	did := func(k harness.Kind, runs, booked, charges, calls int) effects {
		e := effects{carriedOut: map[string]int{tables[k]: runs, "ledger": booked}, charges: charges, calls: calls}
		if booked > 0 {
			e.entries = []string{string(k) + " 1.00"}
		}
		return e
	}
	for name, test := range map[string]struct {
		intent  intent
		end     ending
		effects effects
		wrong   []wrong
	}{
		"payment":           {ok(harness.Payment), endKnown, did(harness.Payment, 1, 1, 0, 0), nil},
		"refund":            {ok(harness.Refund), endKnown, did(harness.Refund, 1, 1, 1, 3), nil},
		"payout":            {ok(harness.Payout), endKnown, did(harness.Payout, 1, 1, 1, 1), nil},
		"payment run again": {ok(harness.Payment), endKnown, did(harness.Payment, 2, 1, 0, 0), []wrong{duplicate}},
		"payment run twice": {ok(harness.Payment), endKnown, did(harness.Payment, 2, 2, 0, 0), []wrong{duplicate}},
		"two entries": {ok(harness.Payment), endKnown, effects{
			carriedOut: map[string]int{"payments": 1, "ledger": 1}, entries: []string{"payment 1.00", "payment 1.00"},
		}, []wrong{duplicate}},
		"refund booked twice":      {ok(harness.Refund), endKnown, did(harness.Refund, 1, 2, 1, 1), []wrong{duplicate}},
		"refund charged twice":     {ok(harness.Refund), endKnown, did(harness.Refund, 1, 1, 2, 2), []wrong{duplicate}},
		"payout called twice":      {ok(harness.Payout), endUnknown, did(harness.Payout, 0, 0, 1, 2), []wrong{duplicate}},
		"payment charged":          {ok(harness.Payment), endKnown, did(harness.Payment, 1, 1, 1, 1), []wrong{duplicate}},
		"payment lost":             {ok(harness.Payment), endKnown, did(harness.Payment, 0, 0, 0, 0), []wrong{loss}},
		"payout not charged":       {ok(harness.Payout), endKnown, did(harness.Payout, 1, 1, 0, 0), []wrong{loss}},
		"refund not booked":        {ok(harness.Refund), endKnown, did(harness.Refund, 1, 0, 1, 1), []wrong{loss}},
		"no end":                   {ok(harness.Refund), endOpen, did(harness.Refund, 1, 0, 1, 1), []wrong{loss}},
		"no end, and all done":     {ok(harness.Refund), endOpen, did(harness.Refund, 1, 1, 1, 1), []wrong{loss}},
		"unknown, nothing done":    {ok(harness.Payout), endUnknown, did(harness.Payout, 0, 0, 0, 0), nil},
		"unknown, done":            {ok(harness.Payout), endUnknown, did(harness.Payout, 1, 1, 1, 1), nil},
		"unknown, booked for free": {ok(harness.Payout), endUnknown, did(harness.Payout, 1, 1, 0, 0), []wrong{contradiction}},
		"refused":                  {intent{kind: harness.Refund, method: "pm_declined"}, endKnown, did(harness.Refund, 1, 0, 0, 0), nil},
		"refused, and booked":      {intent{kind: harness.Payment, amount: "1.00", method: "pm_declined"}, endKnown, did(harness.Payment, 1, 1, 0, 0), []wrong{contradiction}},
		"ended itself":             {intent{kind: harness.Payment, amount: "1.00", method: "pm_commit"}, endUnknown, did(harness.Payment, 1, 1, 0, 0), nil},
		"ended itself, again":      {intent{kind: harness.Payment, amount: "1.00", method: "pm_rollback"}, endUnknown, did(harness.Payment, 2, 2, 0, 0), nil},
		"stuck":                    {intent{kind: harness.Refund, amount: "1.00", method: "pm_stuck"}, endKnown, did(harness.Refund, 1, 0, 1, 10), nil},
		"stuck, and booked":        {intent{kind: harness.Refund, amount: "1.00", method: "pm_stuck"}, endKnown, did(harness.Refund, 1, 1, 1, 1), []wrong{contradiction}},
		"stuck, charged twice":     {intent{kind: harness.Refund, amount: "1.00", method: "pm_stuck"}, endKnown, did(harness.Refund, 1, 0, 2, 2), []wrong{duplicate, contradiction}},
		"hung":                     {intent{kind: harness.Payment, amount: "1.00", method: "pm_hang"}, endOpen, did(harness.Payment, 0, 0, 0, 0), nil},
		"hung, and booked":         {intent{kind: harness.Payment, amount: "1.00", method: "pm_hang"}, endOpen, did(harness.Payment, 1, 1, 0, 0), []wrong{contradiction}},
		"another amount":           {intent{kind: harness.Payment, amount: "2.00", method: "pm_ok"}, endKnown, did(harness.Payment, 1, 1, 0, 0), []wrong{contradiction}},
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
