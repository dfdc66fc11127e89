package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/auth19/idem/internal/harness"
)

type intent = harness.Intent

// The kinds of intents, one for each recovery.
const (
	payment = harness.Payment
	refund  = harness.Refund
	payout  = harness.Payout
)

// intent returns the n-th intent: the same for the same seed.
func (s *soak) intent(n int) intent {
	r := rand.New(rand.NewPCG(s.seed, uint64(n)))
	i := intent{
		N: n, Key: fmt.Sprint("soak-", n), Caller: customer(n), Amount: fmt.Sprintf("%d.%02d", 1+n/100%1000, n%100),
		Method: "pm_ok",
	}
	if r.IntN(20) == 0 {
		i.Method = "pm_declined"
	}
	switch r.IntN(4) {
	case 0:
		i.Kind = refund
		if r.IntN(50) == 0 {
			i.Method = "pm_lost" // the provider's answer is lost; the next attempt gets it
		}
	case 1:
		i.Kind = payout
	default:
		i.Kind = payment
	}
	if which := n % s.oddEvery(); which < len(odd) {
		i.Kind, i.Method = odd[which].kind, odd[which].method
	}
	switch i.Kind {
	case refund:
		i.Path = s.refunds[n%len(s.refunds)]
	case payout:
		i.Path, i.Caller = "/v1/payouts", "seller-1"
	default:
		i.Path = "/v1/payments"
	}
	return i
}

// odd lists intents with handlers that misbehave: they hang until their deadline, never succeed, or end their own
// transaction.
var odd = []struct {
	kind   harness.Kind
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

// oddEvery is the number of intents among which each odd one is once: a handler that hangs keeps its client busy.
func (s *soak) oddEvery() int { return int(min(4000, max(100, s.requests/10))) }

// customer returns one of the two customers for whom the apps have tokens.
func customer(n int) string { return fmt.Sprint("customer-", 1+n%2) }
