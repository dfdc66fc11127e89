package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/auth19/idem/core"
)

// kind is what an intent wants.
type kind string

// The kinds, one for each recovery, named as the ledger names their entries.
const (
	payment kind = "payment" // Rollback
	refund  kind = "refund"  // Resume
	payout  kind = "payout"  // Park
)

// intent is a money command that is to be carried out once, under a key of its own.
type intent struct {
	n      int
	kind   kind
	caller string // who sends it, and has the token
	path   string
	amount string
	method string
}

// intent returns the n-th one: the same for the same seed.
func (s *soak) intent(n int) intent {
	r := rand.New(rand.NewPCG(s.seed, uint64(n)))
	i := intent{n: n, caller: customer(n), amount: fmt.Sprintf("%d.%02d", 1+n/100%1000, n%100), method: "pm_ok"}
	if r.IntN(20) == 0 {
		i.method = "pm_declined"
	}
	switch r.IntN(4) {
	case 0:
		i.kind = refund
		if r.IntN(50) == 0 {
			i.method = "pm_lost" // the provider's answer is; the next attempt gets it
		}
	case 1:
		i.kind = payout
	default:
		i.kind = payment
	}
	if which := n % s.oddEvery(); which < len(odd) {
		i.kind, i.method = odd[which].kind, odd[which].method
	}
	switch i.kind {
	case refund:
		i.path = s.refunds[n%len(s.refunds)]
	case payout:
		i.path, i.caller = "/v1/payouts", "seller-1"
	default:
		i.path = "/v1/payments"
	}
	return i
}

// odd are intents whose handlers do what they should not: they hang until their deadline, come to no end, or end their
// own transaction.
var odd = []struct {
	kind   kind
	method string
	is     string // in the report
}{
	{payment, "pm_hang", hangs}, {refund, "pm_hang", hangs}, {payout, "pm_hang", hangs},
	{payment, "pm_commit", ending}, {payment, "pm_rollback", ending},
	{refund, "pm_stuck", "refunds that no attempt could end"},
}

const (
	hangs  = "handlers that hung"
	ending = "handlers that ended their own transaction"
)

// oddEvery is how many intents there are for one of each that is odd: a handler that hangs keeps its client.
func (s *soak) oddEvery() int { return int(min(4000, max(100, s.requests/10))) }

// neverEnds reports whether no attempt can end well: a payment is undone every time.
func (i intent) neverEnds() bool { return i.kind == payment && i.method == "pm_hang" }

// endsItself reports whether the handler ends its own transaction, and so what is left nobody can say.
func (i intent) endsItself() bool { return i.method == "pm_commit" || i.method == "pm_rollback" }

// isStuck reports whether no attempt gets an answer of the provider: after some of them the operation is parked,
// and an operator settles it.
func (i intent) isStuck() bool { return i.method == "pm_stuck" }

// mayBeUnknown reports whether the outcome may be unknown: a Rollback handler leaves no doubt, unless it ends its own
// transaction.
func (i intent) mayBeUnknown() bool { return i.kind != payment || i.endsItself() }

// String is for people.
func (i intent) String() string {
	return fmt.Sprintf("%s %d of %s by %s with %s", i.kind, i.n, i.amount, i.caller, i.method)
}

// customer is one of the two whom the apps have tokens for.
func customer(n int) string { return fmt.Sprint("customer-", 1+n%2) }

func (i intent) key() string { return fmt.Sprint("soak-", i.n) }

// operation is the operation id.
func (i intent) operation() string { return operation(i.caller, i.key()) }

func operation(caller, key string) string {
	return core.RecordID(core.Principal{Issuer: "https://issuer.example", Subject: caller}, key).String()
}

// status is that of its answer.
func (i intent) status() int {
	if i.method == "pm_declined" {
		return http.StatusPaymentRequired
	}
	return http.StatusCreated
}

// body is what is sent: the intent's own command, or another one by mistake.
func (i intent) body(own bool) string {
	amount := i.amount
	if !own {
		amount = "9" + amount
	}
	return fmt.Sprintf(`{"order_id":"%s","amount":"%s","currency":"EUR","method":"%s"}`, i.key(), amount, i.method)
}
