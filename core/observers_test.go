package core_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

type ctxKey string

// namedTracer is a tracer that says its name, and panics if it is told to.
type namedTracer struct {
	name   string
	trace  string
	panics bool
	told   *[]string
}

func (n namedTracer) tell(what string) {
	*n.told = append(*n.told, n.name+" "+what)
	if n.panics {
		panic(n.name)
	}
}

func (n namedTracer) Observe(_ context.Context, e core.Event) { n.tell(string(e.Kind)) }

func (n namedTracer) TraceStart(ctx context.Context, _ core.Event) context.Context {
	n.tell("start")
	return context.WithValue(ctx, ctxKey(n.name), true)
}

func (n namedTracer) Traceparent(context.Context) string {
	n.tell("traceparent")
	return n.trace
}

func (n namedTracer) TraceEnd(context.Context) { n.tell("end") }

// All observers are told, in their order, and one that panics keeps none of the others from it.
//
// CONTRACT X-13
func TestObservers(t *testing.T) {
	var told []string
	tell := func(name string, panics bool) core.Observer {
		return core.ObserverFunc(func(_ context.Context, e core.Event) {
			told = append(told, name+" "+string(e.Kind))
			if panics {
				panic(name)
			}
		})
	}
	all := core.Observers(tell("a", true), nil, core.Observers(tell("b", true), tell("c", false)))
	all.Observe(t.Context(), core.Event{Kind: core.EventClaimed})
	require.Equal(t, []string{"a claimed", "b claimed", "c claimed"}, told)
	_, isTracer := all.(core.Tracer)
	require.False(t, isTracer)

	core.Observers().Observe(t.Context(), core.Event{})
	core.Observers(nil).Observe(t.Context(), core.Event{})
}

// Each tracer adds to the context, and the first one that has a trace is asked for it.
//
// CONTRACT X-13
func TestObserversTrace(t *testing.T) {
	const second = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	var told []string
	all, ok := core.Observers(
		core.ObserverFunc(func(context.Context, core.Event) {}),
		namedTracer{name: "broken", panics: true, told: &told},
		namedTracer{name: "none", told: &told},
		core.Observers(namedTracer{name: "second", trace: second, told: &told}),
		namedTracer{name: "third", trace: someTrace, told: &told},
	).(core.Tracer)
	require.True(t, ok)
	ctx := all.TraceStart(t.Context(), core.Event{})
	require.Nil(t, ctx.Value(ctxKey("broken")))
	for _, name := range []string{"none", "second", "third"} {
		require.Equal(t, true, ctx.Value(ctxKey(name)), name)
	}
	require.Equal(t, second, all.Traceparent(ctx))
	all.TraceEnd(ctx)
	require.Equal(t, []string{"broken start", "none start", "second start", "third start",
		"broken traceparent", "none traceparent", "second traceparent",
		"broken end", "none end", "second end", "third end"}, told)
}
