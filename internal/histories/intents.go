package histories

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/harness"
)

// intent is a money command that must be carried out once. Two intents may have the same key, perhaps for other commands.
type intent struct {
	n      int // its number
	kind   harness.Kind
	caller string // the subject of the token that sends it
	key    string
	path   string
	amount string
	method string // of payment: it tells the simulator of the example apps how the command ends
}

// name is the name of the intent's key in a history.
func (i intent) name() string { return i.caller + "/" + i.key }

// id is the id of the intent's record.
func (i intent) id() core.ID {
	return core.Scoping{}.RecordID(core.Principal{Issuer: harness.Issuer, Subject: i.caller}, i.key)
}

// operation is the operation id.
func (i intent) operation() string { return i.id().String() }

// body is what is sent: the intent's own command, or another one by mistake.
func (i intent) body(other bool) string {
	amount := i.amount
	if other {
		amount = "9" + amount
	}
	return fmt.Sprintf(`{"order_id":"%s","amount":"%s","currency":"EUR","method":"%s"}`, i.key, amount, i.method)
}

// command identifies the command: equal texts are equal commands.
func (i intent) command(other bool) string { return i.path + " " + i.body(other) }

// status is the status of its answer.
func (i intent) status() int {
	if i.method == "pm_declined" {
		return http.StatusPaymentRequired
	}
	return http.StatusCreated
}

// neverEnds reports whether every attempt fails: the payment is undone each time.
func (i intent) neverEnds() bool { return i.kind == harness.Payment && i.method == "pm_hang" }

// endsItself reports whether the handler ends its own transaction. Then it is unknown which rows are left.
func (i intent) endsItself() bool { return i.method == "pm_commit" || i.method == "pm_rollback" }

// isStuck reports whether no attempt gets an answer from the provider. After some attempts the operation is parked,
// and an operator settles it.
func (i intent) isStuck() bool { return i.method == "pm_stuck" }

// mayBeUnknown reports whether the outcome may be unknown. In Rollback it never is, unless the handler ends its own
// transaction.
func (i intent) mayBeUnknown() bool { return i.kind != harness.Payment || i.endsItself() }

// String describes the intent in messages.
func (i intent) String() string {
	return fmt.Sprintf("%s %d of %s by %s with %s", i.kind, i.n, i.amount, i.caller, i.method)
}

// intent makes intent n of the seed: always the same one.
func (c *clients) intent(n int) intent {
	r := rand.New(rand.NewPCG(c.seed, uint64(n)))
	caller := r.IntN(principals)
	i := c.mix(r, n)
	i.n, i.caller, i.key = n, subject(caller), c.world.key(i.key, n/2)
	switch i.kind {
	case harness.Refund:
		i.path = c.refunds[caller+principals*(n/2%(len(c.refunds)/principals))]
	case harness.Payout:
		i.path = "/v1/payouts"
	default:
		i.path = "/v1/payments"
	}
	return i
}

// The methods of commands in a short history. A method that is listed twice is chosen twice as often. methodsOf has those of
// each recovery.
var (
	methods = strings.Fields(`pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok pm_ok
		pm_declined pm_error pm_panic pm_unavailable pm_slow pm_hang`)
	methodsOf = map[core.Recovery][]string{
		core.Rollback: append(strings.Fields("pm_commit pm_rollback"), methods...),
		core.Resume:   append(strings.Fields("pm_lost pm_stuck pm_stuck pm_stuck pm_stuck"), methods...),
		core.Park:     methods,
	}
)

// ofHistory is an intent of a short history: two share a key, and many handlers misbehave.
func ofHistory(r *rand.Rand, n int) (i intent) {
	i.kind = harness.Kinds[r.IntN(len(harness.Kinds))]
	i.amount = fmt.Sprintf("%d.00", 1+r.IntN(5))
	methods := methodsOf[i.kind.Recovery()]
	i.method = methods[r.IntN(len(methods))]
	i.key = fmt.Sprintf("key-%d-%v", n/2, i.kind.Recovery()) // two principals may have the same key
	return i
}

// odd has intents of a long run whose handlers misbehave: they hang until their deadline, never succeed, or end their own
// transaction.
var odd = []intent{
	{kind: harness.Payment, method: "pm_hang"}, {kind: harness.Refund, method: "pm_hang"},
	{kind: harness.Payout, method: "pm_hang"}, {kind: harness.Payment, method: "pm_commit"},
	{kind: harness.Payment, method: "pm_rollback"}, {kind: harness.Refund, method: "pm_stuck"},
}

// ofLongRun is an intent of a long run. Each has a key of its own. Among every so many each odd one is once: a handler that
// hangs keeps its client busy.
func ofLongRun(every int) func(r *rand.Rand, n int) intent {
	return func(r *rand.Rand, n int) (i intent) {
		i.kind, i.method = harness.Kinds[max(0, r.IntN(4)-1)], "pm_ok" // half of them are payments
		switch {
		case n%every < len(odd):
			i = odd[n%every]
		case r.IntN(20) == 0:
			i.method = "pm_declined"
		case i.kind == harness.Refund && r.IntN(50) == 0:
			i.method = "pm_lost" // the provider's answer is lost; the next attempt gets it
		}
		i.amount, i.key = fmt.Sprintf("%d.%02d", 1+n/100%1000, n%100), fmt.Sprint("key-", n)
		return i
	}
}
