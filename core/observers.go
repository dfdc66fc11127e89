package core

import (
	"context"
	"net/http"
	"strings"
)

// Observers returns one observer that passes each event to all of them, in this order. It ignores nil. If one of them
// panics, the others still get the event. The result is a [Tracer] if one of them is: TraceStart passes the context from
// one tracer to the next, and the trace of the first tracer that has one is kept.
func Observers(all ...Observer) Observer {
	var told observers
	var tracers []Tracer
	for _, o := range all {
		if o == nil {
			continue
		}
		told = append(told, o)
		if tracer, ok := o.(Tracer); ok {
			tracers = append(tracers, tracer)
		}
	}
	if len(tracers) == 0 {
		return told
	}
	return tracing{told, tracers}
}

type observers []Observer

// Observe implements [Observer].
func (all observers) Observe(ctx context.Context, e Event) {
	for _, o := range all {
		observe(ctx, o, e)
	}
}

// observe passes an event to one observer. A panic of the observer must not change the outcome of a request.
func observe(ctx context.Context, o Observer, e Event) {
	defer func() { _ = recover() }()
	o.Observe(ctx, e.bounded())
}

// maxEventText is how many bytes a text in an event may have. What a stranger sends must not fill a log.
const maxEventText = 4 << 10

// bounded is e with texts of a bounded length. A method that HTTP does not define is _OTHER, as OpenTelemetry has it.
func (e Event) bounded() Event {
	switch e.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace, "QUERY":
	default:
		e.Method = "_OTHER"
	}
	e.Route, e.Who, e.Why = capped(e.Route), capped(e.Who), capped(e.Why)
	if e.Err != nil {
		if text := e.Err.Error(); len(text) > maxEventText {
			e.Err = &cappedError{e.Err, capped(text)}
		}
	}
	return e
}

func capped(text string) string {
	if len(text) <= maxEventText {
		return text
	}
	return strings.ToValidUTF8(text[:maxEventText], "") + "..."
}

// cappedError is an error with a shorter text.
type cappedError struct {
	error
	text string
}

func (e *cappedError) Error() string { return e.text }
func (e *cappedError) Unwrap() error { return e.error }

// tracing are observers; some of them are tracers.
type tracing struct {
	observers
	tracers []Tracer
}

// TraceStart implements [Tracer].
func (all tracing) TraceStart(ctx context.Context, e Event) context.Context {
	for _, t := range all.tracers {
		ctx = traceStart(ctx, t, e)
	}
	return ctx
}

// Traceparent implements [Tracer].
func (all tracing) Traceparent(ctx context.Context) string {
	for _, t := range all.tracers {
		if trace := traceparent(ctx, t); trace != "" {
			return trace
		}
	}
	return ""
}

// TraceEnd implements [Tracer].
func (all tracing) TraceEnd(ctx context.Context) {
	for _, t := range all.tracers {
		traceEnd(ctx, t)
	}
}
