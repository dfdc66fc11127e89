package otelidem_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// named returns the spans of a name, the first one first.
func (g *telemetry) named(name string) (found []sdktrace.ReadOnlySpan) {
	for _, s := range g.spans.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	return found
}

func attributesOf(s sdktrace.ReadOnlySpan) map[string]any {
	all := map[string]any{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

// The attempt is a child of the server's span, and the handler's spans, the claim and the recording are its children.
func TestSpansOfAnAttempt(t *testing.T) {
	for name, newApp := range frameworks {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{})
			var operation string
			a.handle = func(w http.ResponseWriter, r *http.Request) {
				id, _ := core.Operation(r.Context())
				operation = id.String()
				_, span := a.tracer.Start(r.Context(), "handler")
				span.End()
				w.WriteHeader(201)
			}
			require.Equal(t, 201, a.send(t, "k-1", `{}`).Code)
			server, attempt := a.named("server")[0], a.named("idem.attempt")[0]
			require.Equal(t, server.SpanContext().SpanID(), attempt.Parent().SpanID())
			require.Equal(t, server.SpanContext().TraceID(), attempt.SpanContext().TraceID())
			for _, child := range []string{"handler", "idem.claim", "idem.recording"} {
				found := a.named(child)
				require.Len(t, found, 1, child)
				require.Equal(t, attempt.SpanContext().SpanID(), found[0].Parent().SpanID(), child)
				require.False(t, found[0].EndTime().Before(found[0].StartTime()))
				require.False(t, found[0].EndTime().After(attempt.EndTime()), child)
			}
			require.Equal(t, map[string]any{"http.route": pattern, "http.request.method": "POST", "idem.recovery": "park",
				"idem.operation": operation, "idem.fence": int64(1), "idem.result": "created"}, attributesOf(attempt))
			require.Equal(t, codes.Unset, attempt.Status().Code)
			require.Len(t, a.spans.Ended(), 5)
			require.Len(t, a.spans.Started(), 5, "none stays open")
		})
	}
}

// The span of a repeat leads to the trace of the attempt that it is answered from, whether that has an answer or not.
func TestSpanOfARepeatLinksToItsAttempt(t *testing.T) {
	for name, newApp := range frameworks {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{})
			requireLink := func(span string, attempt sdktrace.ReadOnlySpan, result string) {
				t.Helper()
				found := a.named(span)
				require.NotEmpty(t, found)
				last := found[len(found)-1]
				require.Len(t, last.Links(), 1)
				require.Equal(t, attempt.SpanContext().TraceID(), last.Links()[0].SpanContext.TraceID())
				require.Equal(t, attempt.SpanContext().SpanID(), last.Links()[0].SpanContext.SpanID())
				require.True(t, last.Links()[0].SpanContext.IsSampled())
				require.NotEqual(t, attempt.SpanContext().TraceID(), last.SpanContext().TraceID(), "a request of its own")
				require.Equal(t, result, attributesOf(last)["idem.result"])
			}
			a.send(t, "k-1", `{}`)
			a.send(t, "k-1", `{}`)
			requireLink("idem.replay", a.named("idem.attempt")[0], "reused")
			a.send(t, "k-1", `{"other":1}`)
			requireLink("idem.refusal", a.named("idem.attempt")[0], "key_reused")
			a.handle = status(502)
			a.send(t, "k-2", `{}`)
			unknown := a.named("idem.attempt")[1]
			require.Equal(t, codes.Error, unknown.Status().Code)
			require.Equal(t, "idem.unknown", unknown.Events()[0].Name)
			a.send(t, "k-2", `{}`)
			requireLink("idem.refusal", unknown, "outcome_unknown")
		})
	}
}

// What Run goes on with has no server's span: its trace leads to the attempt before.
func TestSpanOfAResumedOperation(t *testing.T) {
	var clock clock
	resumed := make(chan struct{})
	order := func(ctx context.Context) error {
		return core.CallDo(ctx, "order", func(context.Context, core.DerivedKey) error { return nil })
	}
	a := newGin(t, core.Config{Store: memstore.New(memstore.WithClock(clock.now)), Now: clock.now, SweepEvery: time.Millisecond,
		Resume: map[string]core.Resumer{"POST /v1/orders": func(ctx context.Context, _ core.Record) (*core.Answer, error) {
			defer close(resumed)
			return &core.Answer{Status: 201}, order(ctx)
		}}})
	a.handle = func(_ http.ResponseWriter, r *http.Request) {
		require.NoError(t, order(r.Context()))
		panic("the process dies")
	}
	a.send(t, "k-1", `{}`, to("/v1/orders"))
	clock.add(time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = a.module.Run(ctx) })
	<-resumed
	require.Eventually(t, func() bool { return len(a.named("idem.attempt")) == 2 }, time.Minute, time.Millisecond)
	stop()
	run.Wait()
	before, after := a.named("idem.attempt")[0], a.named("idem.attempt")[1]
	require.False(t, after.Parent().IsValid())
	require.Equal(t, before.SpanContext().SpanID(), after.Links()[0].SpanContext.SpanID())
	got := a.collect(t)
	requireMetric(t, sum(true, counted(1, *attribute.EmptySet())), got["idem.resumed"])
	requests := setsOf(got["idem.requests"])
	require.Len(t, requests, 1, "the one that panicked")
	result, _ := requests[0].Value("idem.result")
	require.Equal(t, "yielded", result.AsString())
}

// No metric and no span has anything of a request but the pattern of its route and the operation's id.
//
// CONTRACT K-6
func TestNothingSecretIsMeasured(t *testing.T) {
	for name, newApp := range frameworks {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{})
			stop, err := a.Watch(a.module)
			require.NoError(t, err)
			defer stop()
			a.handle = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/secret-answer")
				w.WriteHeader(201)
				_, _ = w.Write([]byte("secret-answer"))
			}
			secretive := func(r *http.Request) { r.URL.RawQuery = "q=secret-query" }
			for _, key := range []string{"secret-key", "secret-key", "secret key"} {
				a.send(t, key, `{"card":"secret-body"}`, secretive)
			}
			a.send(t, "secret-key", `{"other":"secret-body"}`)
			a.send(t, "secret-key", `{}`, header("Authorization", "Bearer secret-token"))
			a.handle = func(w http.ResponseWriter, _ *http.Request) { panic("secret-panic") }
			a.send(t, "secret-key-2", `{}`)
			// A guard in front of all routes refuses any method that a client thinks of.
			core.Observers(a).Observe(t.Context(), core.Event{Kind: core.EventRefused, Method: "SECRET-METHOD", Code: core.CodeUnauthenticated})

			var seen strings.Builder
			for name, m := range a.collect(t) {
				seen.WriteString(name + m.Description)
				requireNoOperation(t, m)
				for _, set := range setsOf(m) {
					seen.WriteString(set.Encoded(attribute.DefaultEncoder()))
				}
			}
			for _, s := range a.spans.Ended() {
				seen.WriteString(s.Name() + s.Status().Description)
				for _, kv := range s.Attributes() {
					seen.WriteString(string(kv.Key) + kv.Value.String())
				}
				for _, e := range s.Events() {
					seen.WriteString(e.Name)
					set := attribute.NewSet(e.Attributes...)
					seen.WriteString(set.Encoded(attribute.DefaultEncoder()))
				}
			}
			require.Contains(t, seen.String(), pattern)
			require.Contains(t, seen.String(), "_OTHER")
			require.NotContains(t, strings.ToLower(seen.String()), "secret")
			require.NotContains(t, seen.String(), token(t, "customer")[:20])
		})
	}
}

// Where nobody records spans, the trace of the server's span is kept, if it has one.
func TestTraceWithoutAProvider(t *testing.T) {
	a := newTelemetry(t)
	require.Empty(t, a.Traceparent(t.Context()))
	ctx, span := a.tracer.Start(t.Context(), "server")
	defer span.End()
	s := trace.SpanContextFromContext(ctx)
	require.Equal(t, "00-"+s.TraceID().String()+"-"+s.SpanID().String()+"-01", a.Traceparent(ctx))
}
