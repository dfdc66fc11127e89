package core

import (
	"context"
	"time"
)

// Observer is told what happens to commands: for logs, metrics and traces. Observe runs in the goroutine of a request, of a
// lease's renewal, of Run or of the caller of [Module.Erase], and in several goroutines at once. It must be quick. A panic
// of it is ignored. Events never carry keys, tokens or bodies (K-6).
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function as an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe implements [Observer].
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// EventKind names what happened.
type EventKind string

// The kinds of events. Those from EventLeaseLost on deserve somebody's attention.
const (
	EventClaimed    EventKind = "claimed"     // an attempt begins
	EventCompleted  EventKind = "completed"   // its answer is recorded: Status
	EventFreed      EventKind = "freed"       // it ended with proof that nothing was applied; the key is free: Status
	EventRolledBack EventKind = "rolled_back" // a Rollback attempt was undone, the key is free: Status, or Err
	EventYielded    EventKind = "yielded"     // a Resume attempt ended early; the next repeat goes on: Status, or Err
	EventReplayed   EventKind = "replayed"    // a repeat got the recorded answer: Status
	EventRefused    EventKind = "refused"     // a request was refused: Code; Err is the reason of a 401 (O-7)
	EventSettled    EventKind = "settled"     // an unknown operation was settled
	EventAnswerRead EventKind = "answer_read" // an operator has read an answer that is not its own: Who
	EventResumed    EventKind = "resumed"     // Run goes on with a Resume operation that nobody else goes on with
	EventReconciled EventKind = "reconciled"  // Config.Reconcile has settled an unknown operation
	EventSwept      EventKind = "swept"       // a batch of a sweep changed something: Count
	EventCaughtUp   EventKind = "caught_up"   // a sweep came to its end: nothing that is due is left
	EventWouldClaim EventKind = "would_claim" // in shadow: a new key; it would have been an attempt
	EventErasing    EventKind = "erasing"     // an operator's erasure begins: Scope, Who, Why
	EventErased     EventKind = "erased"      // it has ended: Scope, Who, Why, Count, Open; Err where it was cut off
	EventUndeclared EventKind = "undeclared"  // the audit found an unsafe route outside of Config.Owns, and not in the table

	EventLeaseLost         EventKind = "lease_lost"          // an attempt could not renew its lease; its context ends: Err
	EventUnknown           EventKind = "unknown"             // an attempt ended without proof; needs a settlement: Status
	EventStale             EventKind = "stale"               // an attempt was refused after a settlement or takeover
	EventUnconfirmed       EventKind = "unconfirmed"         // recording could not be confirmed: Err
	EventNotAppliedRefused EventKind = "not_applied_refused" // core.NotApplied was declared and does not count: Status
	EventClockSkew         EventKind = "clock_skew"          // store and app tell times too far apart, once a minute: Err
	EventFailed            EventKind = "failed"              // the store, or an app's function in Run, has failed: Err
	EventOverdue           EventKind = "overdue"             // a Rollback attempt was rolled back at its deadline: Status
	// EventTransactionUnused: a Rollback attempt has succeeded, but its handler never asked for the transaction: Status. What
	// the handler wrote outside of it is not rolled back with an attempt, and the next attempt writes it again. Count
	// is how many such attempts there were on this route in this process.
	EventTransactionUnused EventKind = "transaction_unused"
	// EventSweepHeldUp: a transaction that stays open has kept a part of the sweeps from going on for a quarter of an hour or
	// more, once an hour: Err says for how long.
	EventSweepHeldUp EventKind = "sweep_held_up"
	// EventAbandoned: another request got the context of a handler that was still at work; the attempt ends like a panic
	// . Err names the cause.
	EventAbandoned EventKind = "abandoned"

	EventSuspectedDuplicate EventKind = "suspected_duplicate" // a command came again under a new key: Earlier
	EventWouldReplay        EventKind = "would_replay"        // in shadow: a repeat ran again, instead of being answered
	EventWouldRefuse        EventKind = "would_refuse"        // in shadow: a request passed that will be refused: Code
	EventShadowed           EventKind = "shadowed"            // the audit found a route in shadow: Until
)

// IsWarning reports whether events of this kind deserve somebody's attention.
func (k EventKind) IsWarning() bool {
	switch k {
	case EventLeaseLost, EventUnknown, EventStale, EventUnconfirmed, EventNotAppliedRefused, EventClockSkew, EventFailed,
		EventOverdue, EventTransactionUnused, EventSweepHeldUp, EventAbandoned, EventSuspectedDuplicate,
		EventWouldReplay, EventWouldRefuse, EventShadowed:
		return true
	}
	return false
}

// EndsAttempt reports whether an event of this kind says that an attempt has ended. One such event follows each
// EventClaimed, unless the process dies in between.
func (k EventKind) EndsAttempt() bool {
	switch k {
	case EventCompleted, EventFreed, EventRolledBack, EventYielded, EventUnknown, EventStale, EventUnconfirmed:
		return true
	}
	return false
}

// Event is one thing that happened. Zero fields do not apply.
type Event struct {
	Kind      EventKind
	Operation ID // the zero ID where there is none
	Method    string
	Route     string    // the router's pattern
	Recovery  Recovery  // of the attempt, or of the route
	Fence     int64     // of the attempt; 1 is the first
	Status    int       // of the answer
	Code      Code      // of the problem that a request was refused with
	Count     int       // of records, or of attempts: see the kinds
	Err       error     // the reason, or the error of the store or of an app's function: see the kinds
	Earlier   ID        // the operation of the command's earlier key
	Until     time.Time // the end of a route's shadow

	// Claim is how long the store took to decide who runs the command: the sum, if a repeat has asked several times. It is
	// set once for a request: on EventClaimed, or on EventReplayed or EventRefused.
	Claim time.Duration
	// Waiting is how long a repeat has waited for a running attempt, without Claim. It is set where Claim is.
	Waiting time.Duration
	// Attempt is how long an attempt took, from the end of its claim until its own end was recorded. It is set on the
	// events that end an attempt: see [EventKind.EndsAttempt].
	Attempt time.Duration
	// Recording is the part of Attempt that came after the handler: to record the answer, to commit or to roll back.
	Recording time.Duration

	// Traceparent is the trace of an earlier attempt, as [Tracer.Traceparent] has returned it: of the one whose answer is
	// replayed, that a refusal is about, or that EventResumed follows. "" if it is not known.
	Traceparent string

	Who string // the operator who has read an answer, or has asked for an erasure

	// Of an erasure:
	Scope Scope // whose records
	Why   string
	Open  int // operations that were left because they are open
}
