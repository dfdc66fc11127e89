package core

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// Observer gets an event for each thing that happens to a command: for logs, metrics and traces. Observe runs in the
// goroutine of a request, of a lease's renewal, of Run or of the caller of a [Module]'s method, and in several goroutines
// at once. It must be quick. Its panic is ignored. Events never have keys, tokens or bodies (K-6), and no text above 4 KiB.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function as an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe implements [Observer].
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// EventKind names what happened.
type EventKind string

// The kinds of events. EventLeaseLost and all kinds below it need an operator's attention.
const (
	EventClaimed    EventKind = "claimed"     // an attempt begins
	EventCompleted  EventKind = "completed"   // its answer is recorded: Status
	EventFreed      EventKind = "freed"       // it ended with proof of no effect; the key is free: Status; Err if late
	EventRolledBack EventKind = "rolled_back" // a Rollback attempt was undone, the key is free: Status, or Err
	EventYielded    EventKind = "yielded"     // a Resume attempt ended early; the next repeat continues: Status, or Err
	EventReplayed   EventKind = "replayed"    // a repeat got the recorded answer: Status
	EventRefused    EventKind = "refused"     // a request was refused: Code; Err is why: for a 401 (O-7), a 403, wrong wiring
	EventSettled    EventKind = "settled"     // an unknown operation was settled: Who, Why, Outcome; Status, Digest
	EventProposed   EventKind = "proposed"    // a settlement was proposed: Who, Why, Outcome, Digest
	EventWithdrawn  EventKind = "withdrawn"   // a proposal was withdrawn: Who, Why, Outcome, Digest
	EventAnswerRead EventKind = "answer_read" // an operator has read an answer that is not its own: Who
	EventResumed    EventKind = "resumed"     // Run continues a Resume operation whose attempt was lost
	EventReconciled EventKind = "reconciled"  // Config.Reconcile has settled an unknown operation
	EventSwept      EventKind = "swept"       // a batch of a sweep changed something: Count
	EventCaughtUp   EventKind = "caught_up"   // a sweep ended without an error: it has left nothing that is due
	EventWouldClaim EventKind = "would_claim" // in shadow: a new key; an attempt would have begun
	EventErasing    EventKind = "erasing"     // an operator's erasure begins: Scope, Who, Why
	EventErased     EventKind = "erased"      // it has ended: Scope, Who, Why, Count, Open; Err if it was cut off
	// EventSettleRefused: an operator wanted to settle an operation, and nothing was changed: Who, Code.
	EventSettleRefused EventKind = "settle_refused"
	EventRetried       EventKind = "retried"      // an operator lets a half-done operation be tried again now: Who, Why
	EventGivenUp       EventKind = "given_up"     // an operator has parked a half-done operation: Who, Why
	EventKeysRefused   EventKind = "keys_refused" // keys made before a moment are refused: Until, Count routes, Who, Why
	EventMarked        EventKind = "marked"       // operations that the database has lost are marked: Count, Who, Why
	EventUnguarded     EventKind = "unguarded"    // the audit found a route that is declared as not guarded yet

	EventLeaseLost         EventKind = "lease_lost"          // an attempt could not renew its lease; its context ends: Err
	EventUnknown           EventKind = "unknown"             // what an attempt changed is not known; settle it: Status
	EventStale             EventKind = "stale"               // an attempt was refused after a settlement or takeover
	EventUnconfirmed       EventKind = "unconfirmed"         // recording could not be confirmed: Err
	EventNotAppliedRefused EventKind = "not_applied_refused" // core.NotApplied was declared and does not count: Status
	EventClockSkew         EventKind = "clock_skew"          // the clocks of store and app differ too much; once a minute: Err
	// EventFailed: the store, or an app's function in Run, has failed: Err. Of requests that were refused for it, one event a
	// second is sent, with their Count. A store that only has too much to do has not failed: its requests are EventRefused.
	// Also where the store could not seal an answer, and its status alone is recorded: Status, Err.
	EventFailed EventKind = "failed"
	// EventOverdue: a Rollback attempt was rolled back at its deadline, or a streamed answer was cut off at it, because its
	// client did not read: Status, and Err in the second case. The usual cause is a write past the attempt's transaction that
	// waits for a row which the attempt has locked: it commits when the attempt is rolled back.
	EventOverdue EventKind = "overdue"
	// EventTransactionUnused: a Rollback handler has succeeded, and its transaction carried no write: Status. If the handler
	// writes rows outside the transaction, a failed attempt does not undo them, and the next attempt writes them again. With
	// [UnwrittenRefused] the attempt is rolled back; with [UnwrittenAllowed] there is no event. Count is the number of
	// such attempts on this route in this process.
	EventTransactionUnused EventKind = "transaction_unused"
	// EventStatementFailed: a handler has answered 4xx although a statement of it had failed, and no savepoint has undone that:
	// Status, and Err with the class of the statement's error, never its text. A constraint that stands for a refusal is
	// as it should be. Any other error that is answered with 4xx is a fault of the handler: it should answer 5xx, because the
	// answer is replayed. Count is the number of such attempts on this route in this process.
	EventStatementFailed EventKind = "statement_failed"
	// EventRouteUnknown: half-done or unknown operations belong to a route that is neither in the table nor a former pattern of
	// one, so this release neither continues them nor gives them up, and asks no Reconcile for them: Route, Recovery, Count. It
	// is sent once an hour for each route (Policy.Formerly, X-10).
	EventRouteUnknown EventKind = "route_unknown"
	// EventLongSegment: a segment of a Resume attempt was open for more than a third of the attempt's deadline: Err. Its
	// transaction holds locks and a connection, and what it has written can still be lost.
	EventLongSegment EventKind = "long_segment"
	// EventAbandoned: the framework gave the context of a handler that was still running to another request. The attempt
	// ends as after a panic. Err names the cause.
	EventAbandoned EventKind = "abandoned"
	// EventWriteRefused: a statement of the attempt was refused before it was sent: a write past its transaction, transaction
	// control. Err says why, without the statement's values. It is sent once for an attempt. A handler that ignores the
	// statement's error answers as if it had been carried out.
	EventWriteRefused EventKind = "write_refused"

	EventSuspectedDuplicate EventKind = "suspected_duplicate" // a command came again with a new key: Earlier
	EventWouldReplay        EventKind = "would_replay"        // in shadow: a repeat ran again; it would be answered
	EventWouldRefuse        EventKind = "would_refuse"        // in shadow: a request passed that would be refused: Code
	EventShadowed           EventKind = "shadowed"            // the audit found a route in shadow: Until
)

// IsWarning reports whether events of this kind need an operator's attention.
func (k EventKind) IsWarning() bool {
	switch k {
	case EventLeaseLost, EventUnknown, EventStale, EventUnconfirmed, EventNotAppliedRefused, EventClockSkew, EventFailed,
		EventOverdue, EventTransactionUnused, EventStatementFailed, EventRouteUnknown, EventLongSegment,
		EventAbandoned, EventWriteRefused, EventSuspectedDuplicate, EventWouldReplay, EventWouldRefuse, EventShadowed:
		return true
	}
	return false
}

// EndsAttempt reports whether an event of this kind says that an attempt has ended. One such event follows each
// EventClaimed and each EventResumed, unless the process dies before.
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
	Operation ID        // the zero ID if there is none
	Method    string    // "_OTHER" for one that HTTP does not define
	Route     string    // the router's pattern
	Recovery  Recovery  // of the attempt, or of the route
	Fence     int64     // of the attempt; 1 is the first
	Status    int       // of the answer
	Code      Code      // of the problem that a request was refused with
	Count     int       // of records, attempts or requests: see the kinds
	Err       error     // the reason, or the error of the store or of an app's function: see the kinds
	Earlier   ID        // the operation of the command's earlier key
	Until     time.Time // the end of a route's shadow

	// Claim is how long the store took to decide who runs the command. If a repeat has claimed several times, it is the sum.
	// It is set once for each request: on EventClaimed, EventReplayed or EventRefused.
	Claim time.Duration
	// Waiting is how long a repeat has waited for a running attempt, without Claim. It is set on the same event as Claim.
	Waiting time.Duration
	// Attempt is how long an attempt took, from the end of its claim until its own end was recorded. It is set on the
	// events that end an attempt: see [EventKind.EndsAttempt].
	Attempt time.Duration
	// Recording is the part of Attempt after the handler: the time to record the answer, to commit or to roll back.
	Recording time.Duration

	// Traceparent is the trace of an earlier attempt, as [Tracer.Traceparent] has returned it: the attempt whose answer is
	// replayed, that a refusal is about, or that EventResumed continues. "" if it is not known.
	Traceparent string

	Who string // the operator who has read an answer, has settled or wanted to, or has asked for an erasure

	Proposer string // of a settlement that was carried out: who has proposed it

	Why string // of a settlement or an erasure, in the operator's words; the log has it where no operation is named

	Outcome string // of a settlement: "applied" or "not_applied"
	// Digest is the SHA-256 in hex of the answer's body, where it was settled as applied: by it the same answer is known. Of
	// EventProposed and EventWithdrawn it is [Proposal].Digest.
	Digest string

	// Of an erasure:
	Scope store.Scope // whose records
	Open  int         // operations that were not erased because they are open
}
