package otelidem

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// Traceparent implements [core.Tracer]: it is the trace of the span that TraceStart has begun. Without a provider of spans
// it is that of the server's span.
func (t *Telemetry) Traceparent(ctx context.Context) string {
	s := trace.SpanContextFromContext(ctx)
	if !s.IsValid() {
		return ""
	}
	return "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()
}

// spanContextOf reads what Traceparent has returned; it is not valid for any other text.
func spanContextOf(traceparent string) trace.SpanContext {
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 || parts[0] != "00" {
		return trace.SpanContext{}
	}
	id, err := trace.TraceIDFromHex(parts[1])
	if err != nil {
		return trace.SpanContext{}
	}
	span, err := trace.SpanIDFromHex(parts[2])
	if err != nil {
		return trace.SpanContext{}
	}
	var flags trace.TraceFlags
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, Remote: true,
		TraceFlags: flags.WithSampled(parts[3] == "01" || parts[3] == "03")})
}
