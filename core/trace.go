package core

import (
	"context"
	"strings"
)

// Tracer is an [Observer] that makes a trace of a command. If Config.Observer is a Tracer, the trace of an attempt is
// kept with its record. So the trace of a repeat can refer to the attempt whose answer it gets. A panic of its methods is
// ignored.
type Tracer interface {
	Observer

	// TraceStart is called before the claim of a command that the guards have let through, and before Run continues a Resume
	// operation (EventResumed). It returns a context derived from ctx, which is used for the claim, the handler, and the
	// events of the command. e has Operation, Method, Route, Recovery and, with EventResumed, Traceparent.
	TraceStart(ctx context.Context, e Event) context.Context
	// Traceparent returns the trace of a context that TraceStart has returned, in the form of the header traceparent of W3C
	// Trace Context, version 00: 55 characters. It returns "" if ctx has no trace. A value in any other form counts as "".
	Traceparent(ctx context.Context) string
	// TraceEnd is called once for each TraceStart, with the values of the context that it has returned, after all of the
	// command's events: when the answer is recorded, and before it is sent.
	TraceEnd(ctx context.Context)
}

// traceStart returns the context of a command that is about to be claimed. t may be nil.
func traceStart(ctx context.Context, t Tracer, e Event) (traced context.Context) {
	if t == nil {
		return ctx
	}
	defer func() {
		if recover() != nil || traced == nil {
			traced = ctx
		}
	}()
	return t.TraceStart(ctx, e.bounded())
}

// traceparent is the trace of ctx in the form that a record keeps.
func traceparent(ctx context.Context, t Tracer) (kept string) {
	if t == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			kept = ""
		}
	}()
	if trace := t.Traceparent(ctx); isTraceparent(trace) {
		kept = trace
	}
	return kept
}

// traceEnd is called once for each traceStart.
func traceEnd(ctx context.Context, t Tracer) {
	if t == nil {
		return
	}
	defer func() { _ = recover() }()
	t.TraceEnd(ctx)
}

// isTraceparent reports whether s is a traceparent of version 00: "00-", the trace's id, "-", the parent's id, "-", the
// flags, in lower-case hex digits. An id of zeros is not valid.
func isTraceparent(s string) bool {
	const form = "00-00000000000000000000000000000000-0000000000000000-00"
	if len(s) != len(form) || s[:3] != "00-" {
		return false
	}
	for i := range len(s) {
		if (form[i] == '-') != (s[i] == '-') || s[i] != '-' && !strings.ContainsRune("0123456789abcdef", rune(s[i])) {
			return false
		}
	}
	return s[3:35] != form[3:35] && s[36:52] != form[36:52]
}
