package core

import (
	"context"
	"log/slog"
	"time"
)

// Observer is told what happens to commands: for logs, metrics and traces. Observe runs in the goroutine of a request, of a
// lease's renewal or of Run, and in several goroutines at once. It must be quick. A panic of it is ignored. Events never
// carry keys, tokens or bodies (K-6).
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
	EventSwept      EventKind = "swept"       // a sweep changed something: Count
	EventWouldClaim EventKind = "would_claim" // in shadow: a new key; it would have been an attempt

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
	// EventAbandoned: another request got the context of a handler that was still at work; the attempt ends like a panic
	// . Err names the cause.
	EventAbandoned EventKind = "abandoned"

	EventSuspectedDuplicate EventKind = "suspected_duplicate" // a command came again under a new key: Earlier
	EventWouldReplay        EventKind = "would_replay"        // in shadow: a repeat ran again, instead of being answered
	EventWouldRefuse        EventKind = "would_refuse"        // in shadow: a request passed that will be refused: Code
	EventShadowed           EventKind = "shadowed"            // the audit found a route in shadow: Until
)

// Event is one thing that happened. Zero fields do not apply.
type Event struct {
	Kind      EventKind
	Operation ID // the zero ID where there is none
	Method    string
	Route     string // the router's pattern
	Recovery  Recovery
	Fence     int64     // of the attempt; 1 is the first
	Status    int       // of the answer
	Code      Code      // of the problem that a request was refused with
	Count     int       // of records
	Err       error     // of the store, or of the app's reconciler
	Earlier   ID        // the operation of the command's earlier key
	Until     time.Time // the end of a route's shadow
}

// LogObserver writes events to a log: events that deserve attention as warnings, the reason of a 401 as information, all
// others as debug messages. Of EventTransactionUnused only the first one of a route and process is a warning.
func LogObserver(log *slog.Logger) Observer {
	return ObserverFunc(func(ctx context.Context, e Event) {
		level := slog.LevelDebug
		switch e.Kind {
		case EventLeaseLost, EventUnknown, EventStale, EventUnconfirmed, EventNotAppliedRefused, EventClockSkew, EventFailed,
			EventSuspectedDuplicate, EventWouldReplay, EventWouldRefuse, EventShadowed, EventOverdue, EventAbandoned:
			level = slog.LevelWarn
		case EventRefused:
			if e.Code == CodeUnauthenticated {
				level = slog.LevelInfo
			}
		case EventTransactionUnused:
			if e.Count <= 1 {
				level = slog.LevelWarn
			}
		}
		if !log.Enabled(ctx, level) {
			return
		}
		attrs := make([]slog.Attr, 0, 8)
		if e.Operation != (ID{}) {
			attrs = append(attrs, slog.String("operation", e.Operation.String()))
		}
		if e.Route != "" {
			attrs = append(attrs, slog.String("method", e.Method), slog.String("route", e.Route))
		}
		if e.Fence != 0 {
			attrs = append(attrs, slog.Int64("fence", e.Fence))
		}
		if e.Status != 0 {
			attrs = append(attrs, slog.Int("status", e.Status))
		}
		if e.Code != "" {
			attrs = append(attrs, slog.String("code", string(e.Code)))
		}
		if e.Count != 0 {
			attrs = append(attrs, slog.Int("count", e.Count))
		}
		if e.Earlier != (ID{}) {
			attrs = append(attrs, slog.String("earlier", e.Earlier.String()))
		}
		if !e.Until.IsZero() {
			attrs = append(attrs, slog.Time("until", e.Until))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		log.LogAttrs(ctx, level, "idem: "+string(e.Kind), attrs...)
	})
}
