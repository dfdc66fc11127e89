package otelidem

import (
	"context"

	"github.com/auth19/idem/core"
)

// The results of requests and attempts that are neither a code nor the kind of the event that ended the attempt.
const (
	created = "created"
	reused  = "reused"
)

// Observe implements [core.Observer].
func (t *Telemetry) Observe(ctx context.Context, e core.Event) {
	c := commandFrom(ctx)
	if e.Kind.IsWarning() {
		n := 1
		if e.Kind == core.EventFailed { // one event a second stands for all of them
			n = max(n, e.Count)
		}
		t.instruments.warnings.Add(ctx, int64(n), t.sets.kind(e.Kind).add...)
		c.warn(e)
	}
	switch e.Kind {
	case core.EventClaimed:
		t.claimed(ctx, c, e)
	case core.EventReplayed:
		t.replayed(ctx, c, e)
	case core.EventRefused:
		t.refused(ctx, c, e)
	case core.EventSwept:
		t.instruments.swept.Add(ctx, int64(e.Count))
	case core.EventCaughtUp:
		t.instruments.sweeps.Add(ctx, 1)
	case core.EventResumed:
		t.instruments.resumed.Add(ctx, 1)
	case core.EventReconciled:
		t.instruments.reconciled.Add(ctx, 1, t.sets.of(labels{route: e.Route}).add...)
	case core.EventSettled:
		t.instruments.settled.Add(ctx, 1, t.sets.of(labels{route: e.Route}).add...)
	default:
		if e.Kind.EndsAttempt() {
			t.ended(ctx, c, e)
		}
	}
}

func (t *Telemetry) claimed(ctx context.Context, c *command, e core.Event) {
	t.measureClaim(ctx, c, e)
	t.instruments.active.Add(ctx, 1, t.sets.of(labelsOf(e)).add...)
	c.begun(e)
}

// measureClaim measures the claim of a request: one of its events has the time.
func (t *Telemetry) measureClaim(ctx context.Context, c *command, e core.Event) {
	if e.Claim > 0 {
		t.instruments.claim.Record(ctx, e.Claim.Seconds(), t.sets.of(labelsOf(e)).record...)
		t.span(ctx, c, "idem.claim", e.Claim)
	}
}

func (t *Telemetry) ended(ctx context.Context, c *command, e core.Event) {
	l, result := labelsOf(e), string(e.Kind)
	if e.Kind == core.EventCompleted {
		result = created
	}
	t.instruments.active.Add(ctx, -1, t.sets.of(l).add...)
	t.instruments.attempt.Record(ctx, e.Attempt.Seconds(), t.sets.of(l.with(result)).record...)
	if c == nil {
		t.instruments.requests.Add(ctx, 1, t.sets.of(l.with(result)).add...)
		return
	}
	t.span(ctx, c, "idem.recording", e.Recording)
	c.ended = result
}

func (t *Telemetry) replayed(ctx context.Context, c *command, e core.Event) {
	t.measureClaim(ctx, c, e)
	if c == nil {
		if e.Claim > 0 { // else it answers a late attempt, which was counted
			t.instruments.requests.Add(ctx, 1, t.sets.of(labelsOf(e).with(reused)).add...)
		}
		return
	}
	c.reused = true
	c.found(e)
}

func (t *Telemetry) refused(ctx context.Context, c *command, e core.Event) {
	t.measureClaim(ctx, c, e)
	switch {
	case c != nil:
		c.refused = string(e.Code)
		c.found(e)
	case e.Fence == 0: // else the end of the attempt was counted
		t.instruments.requests.Add(ctx, 1, t.sets.of(labelsOf(e).with(string(e.Code))).add...)
	}
}
