// Package harness is what the proofs under faults have in common: the example apps, which live more than once, between
// proxies that break connections; the faults; what clients intend and what they are answered; and the count of the
// effects. There are three ways to run it: internal/soak is long, internal/chain calls through two services, and
// internal/histories checks the order of everything that happened.
package harness

import (
	"fmt"
	"net/http"

	"github.com/auth19/idem/core"
)

// Kind is what an intent wants, named as the ledger of the example apps names its entries.
type Kind string

// The kinds, one for each recovery.
const (
	Payment Kind = "payment" // Rollback
	Refund  Kind = "refund"  // Resume
	Payout  Kind = "payout"  // Park
)

// Kinds are all of them.
var Kinds = []Kind{Payment, Refund, Payout}

// Recovery is the recovery of the kind's route.
func (k Kind) Recovery() core.Recovery {
	switch k {
	case Payment:
		return core.Rollback
	case Refund:
		return core.Resume
	default:
		return core.Park
	}
}

// Intent is a money command that must be carried out once, under a key of its own.
type Intent struct {
	N      int // its number
	Kind   Kind
	Caller string // the subject of the token that sends it
	Key    string
	Path   string
	Amount string
	Method string // of payment: it tells the simulator of the example apps how the command ends
}

// ID is the id of the intent's record.
func (i Intent) ID() core.ID {
	return core.Scoping{}.RecordID(core.Principal{Issuer: Issuer, Subject: i.Caller}, i.Key)
}

// Operation is the operation id.
func (i Intent) Operation() string { return i.ID().String() }

// Body is what is sent: the intent's own command, or another one by mistake.
func (i Intent) Body(own bool) string {
	amount := i.Amount
	if !own {
		amount = "9" + amount
	}
	return fmt.Sprintf(`{"order_id":"%s","amount":"%s","currency":"EUR","method":"%s"}`, i.Key, amount, i.Method)
}

// Status is the status of its answer.
func (i Intent) Status() int {
	if i.Method == "pm_declined" {
		return http.StatusPaymentRequired
	}
	return http.StatusCreated
}

// NeverEnds reports whether no attempt can end well: a payment is undone every time.
func (i Intent) NeverEnds() bool { return i.Kind == Payment && i.Method == "pm_hang" }

// EndsItself reports whether the handler ends its own transaction: nobody can say then what is left.
func (i Intent) EndsItself() bool { return i.Method == "pm_commit" || i.Method == "pm_rollback" }

// IsStuck reports whether no attempt gets an answer of the provider: after some of them the operation is parked,
// and an operator settles it.
func (i Intent) IsStuck() bool { return i.Method == "pm_stuck" }

// MayBeUnknown reports whether the outcome may be unknown: a Rollback handler leaves no doubt, unless it ends its own
// transaction.
func (i Intent) MayBeUnknown() bool { return i.Kind != Payment || i.EndsItself() }

// String is for people.
func (i Intent) String() string {
	return fmt.Sprintf("%s %d of %s by %s with %s", i.Kind, i.N, i.Amount, i.Caller, i.Method)
}
