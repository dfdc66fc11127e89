// Package harness is shared by the tests under faults. It has the example apps, which are killed and started again, between
// proxies that break connections; the faults; the intents of clients and their answers; and the count of the effects.
// Three packages use it: internal/soak runs long, internal/chain calls through two services, and internal/histories checks
// the order of all operations.
package harness

import (
	"fmt"
	"net/http"

	"github.com/auth19/idem/core"
)

// Kind is the kind of an intent. It has the name of the entries in the ledger of the example apps.
type Kind string

// The kinds, one for each recovery.
const (
	Payment Kind = "payment" // Rollback
	Refund  Kind = "refund"  // Resume
	Payout  Kind = "payout"  // Park
)

// Kinds has all kinds.
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

// NeverEnds reports whether every attempt fails: the payment is undone each time.
func (i Intent) NeverEnds() bool { return i.Kind == Payment && i.Method == "pm_hang" }

// EndsItself reports whether the handler ends its own transaction. Then it is unknown which rows are left.
func (i Intent) EndsItself() bool { return i.Method == "pm_commit" || i.Method == "pm_rollback" }

// IsStuck reports whether no attempt gets an answer from the provider. After some attempts the operation is parked,
// and an operator settles it.
func (i Intent) IsStuck() bool { return i.Method == "pm_stuck" }

// MayBeUnknown reports whether the outcome may be unknown. In Rollback it never is, unless the handler ends its own
// transaction.
func (i Intent) MayBeUnknown() bool { return i.Kind != Payment || i.EndsItself() }

// String describes the intent in messages.
func (i Intent) String() string {
	return fmt.Sprintf("%s %d of %s by %s with %s", i.Kind, i.N, i.Amount, i.Caller, i.Method)
}
