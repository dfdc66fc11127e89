package otelidem

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/auth19/idem/core"
)

// command is what is known of a command while core deals with it. It is in the context, and is written to in the goroutine
// of its request. Only its span is told of what happens elsewhere, a lost lease for instance.
type command struct {
	span      trace.Span
	labels    labels
	byRun     bool // Run goes on with it: there is no request
	attempted bool
	reused    bool
	ended     string // how its attempt ended
	refused   string // the code of its refusal
}

type commandKey struct{}

func commandFrom(ctx context.Context) *command {
	c, _ := ctx.Value(commandKey{}).(*command)
	return c
}

// TraceStart implements [core.Tracer].
func (t *Telemetry) TraceStart(ctx context.Context, e core.Event) context.Context {
	c := &command{labels: labelsOf(e), byRun: e.Kind == core.EventResumed}
	ctx, c.span = t.tracer.Start(ctx, "idem.attempt", t.sets.of(c.labels).start...)
	if c.span.IsRecording() {
		c.span.SetAttributes(operationKey.String(e.Operation.String()))
		c.link(e.Traceparent)
	}
	return context.WithValue(ctx, commandKey{}, c)
}

// TraceEnd implements [core.Tracer].
func (t *Telemetry) TraceEnd(ctx context.Context) {
	c := commandFrom(ctx)
	if c == nil {
		return
	}
	result := cmp.Or(c.refused, c.ended)
	if c.reused && c.refused == "" {
		result = reused
	}
	if !c.byRun && result != "" {
		t.instruments.requests.Add(ctx, 1, t.sets.of(c.labels.with(result)).add...)
	}
	if c.span.IsRecording() {
		switch {
		case c.attempted:
		case c.reused:
			c.span.SetName("idem.replay")
		case c.refused != "":
			c.span.SetName("idem.refusal")
		}
		if result != "" {
			c.span.SetAttributes(resultKey.String(result))
		}
	}
	c.span.End()
}

// begun notes that the claim was won.
func (c *command) begun(e core.Event) {
	if c == nil {
		return
	}
	c.attempted = true
	if c.span.IsRecording() {
		c.span.SetAttributes(fenceKey.Int64(e.Fence))
		c.waited(e)
	}
}

// found notes the record that the request was answered from, or refused because of.
func (c *command) found(e core.Event) {
	if !c.span.IsRecording() {
		return
	}
	if e.Fence != 0 {
		c.span.SetAttributes(fenceKey.Int64(e.Fence))
	}
	c.waited(e)
	c.link(e.Traceparent)
}

func (c *command) waited(e core.Event) {
	if e.Waiting > 0 {
		c.span.SetAttributes(waitingKey.Float64(e.Waiting.Seconds()))
	}
}

// link leads to an earlier attempt.
func (c *command) link(traceparent string) {
	if earlier := spanContextOf(traceparent); earlier.IsValid() {
		c.span.AddLink(trace.Link{SpanContext: earlier})
	}
}

// warn marks the span. The text of the event's error stays out of it: a database may quote values in it.
func (c *command) warn(e core.Event) {
	if c == nil || !c.span.IsRecording() {
		return
	}
	c.span.AddEvent("idem." + string(e.Kind))
	switch e.Kind {
	case core.EventClockSkew, core.EventTransactionUnused, core.EventStatementFailed,
		core.EventSuspectedDuplicate: // the command goes on
	default:
		c.span.SetStatus(codes.Error, string(e.Kind))
	}
}

// span makes the span of something that has just ended and took so long.
func (t *Telemetry) span(ctx context.Context, c *command, name string, took time.Duration) {
	if c == nil || !c.span.IsRecording() {
		return
	}
	now := time.Now()
	_, span := t.tracer.Start(trace.ContextWithSpan(ctx, c.span), name, trace.WithTimestamp(now.Add(-took)))
	span.End(trace.WithTimestamp(now))
}
