package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// traces is a core.Tracer that finds the trace in the context, as a tracing library does, and notes what it is told.
type traces struct {
	told *list[string]
}

func (traces) Observe(context.Context, core.Event) {}

type traceKey struct{}

type startedKey struct{}

func (t traces) TraceStart(ctx context.Context, e core.Event) context.Context {
	t.told.add("start " + string(e.Kind) + e.Method + " " + e.Route + " " + e.Recovery.String() + " " + e.Traceparent)
	if ctx.Value(traceKey{}) == "panic at the start" {
		panic("tracer")
	}
	return context.WithValue(ctx, startedKey{}, true)
}

func (t traces) TraceEnd(ctx context.Context) {
	t.told.add("end")
	if ctx.Value(startedKey{}) != true {
		panic("tracer")
	}
}

func (t traces) Traceparent(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	if trace == "panic" {
		panic("tracer")
	}
	return trace
}

func inTrace(trace string) func(*http.Request) {
	return func(r *http.Request) { *r = *r.WithContext(context.WithValue(r.Context(), traceKey{}, trace)) }
}

func newTracedApp(t *testing.T, cfg core.Config, handler http.HandlerFunc) (*app, *list[string]) {
	a, told := newApp(t, cfg, handler), &list[string]{}
	cfg.Observer = core.Observers(core.ObserverFunc(func(context.Context, core.Event) {}), traces{told: told})
	var err error
	a.module, err = core.New(cfg)
	require.NoError(t, err)
	return a, told
}

const someTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraces(t *testing.T) {
	t.Run("trace is kept", func(t *testing.T) {
		store := memstore.New()
		a, _ := newTracedApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park}},
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
		tests := []struct {
			trace string
			kept  bool
		}{
			{someTrace, true},
			{"", false},
			{"panic", false},
			{"panic at the start", false},
			{strings.Replace(someTrace, "00-", "01-", 1), false}, // another version may have another form
			{someTrace + "-more", false},
			{strings.ToUpper(someTrace), false},
			{strings.Replace(someTrace, "-b7", "_b7", 1), false},
			{strings.Replace(someTrace, "0af7", "0a-7", 1), false},
			{strings.Replace(someTrace, "0af7651916cd43dd8448eb211c80319c", zeros, 1), false},
			{strings.Replace(someTrace, "b7ad6b7169203331", zeros[:16], 1), false},
			{strings.TrimSuffix(someTrace, "01") + "\u00e9", false},
		}
		for i, test := range tests {
			key := "key-" + strconv.Itoa(i)
			require.Equal(t, http.StatusCreated, a.post(key, `{}`, inTrace(test.trace)).Code)
			rec := find(t, store, key)
			require.Equal(t, test.kept, rec.Traceparent == test.trace && test.trace != "", test.trace)
			require.True(t, test.kept || rec.Traceparent == "", test.trace)
		}
	})
	t.Run("the trace of a record is that of the attempt whose answer it has, and repeats do not change it", func(t *testing.T) {
		store := memstore.New()
		status := http.StatusBadGateway
		a, _ := newTracedApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Resume}},
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		other := strings.Replace(someTrace, "0af7", "0af8", 1)
		require.Equal(t, http.StatusBadGateway, a.post("k", `{}`, inTrace(someTrace)).Code)
		status = http.StatusCreated
		require.Equal(t, http.StatusCreated, a.post("k", `{}`, inTrace(other)).Code)
		require.Equal(t, "reused", a.post("k", `{}`, inTrace(someTrace)).Header().Get(wire.HeaderResult))
		rec := find(t, store, "k")
		require.Equal(t, other, rec.Traceparent)
	})
}

const zeros = "00000000000000000000000000000000"

// Whatever becomes of a command, its trace begins once and ends once; the handler runs inside it. What the guards refuse
// has none.
func TestTraceBeginsAndEndsOnce(t *testing.T) {
	begun := "start POST " + pattern + " Park "
	store := newFaultStore(memstore.New())
	a, told := newTracedApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park}}, nil)
	for name, test := range map[string]struct {
		key     string
		handler http.HandlerFunc
		want    []string
	}{
		"an attempt": {"k-1", func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, true, r.Context().Value(startedKey{}))
			require.Equal(t, []string{begun}, told.all(), "it has not ended")
			w.WriteHeader(201)
		}, []string{begun, "end"}},
		"a failure":    {"k-2", status(502), []string{begun, "end"}},
		"a panic":      {"k-3", func(http.ResponseWriter, *http.Request) { panic("a handler panics") }, []string{begun, "end"}},
		"a store away": {"away", nil, []string{begun, "end"}},
		"a refusal":    {"", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a.handler = test.handler
			store.on("claim", nil)
			if test.key == "away" {
				store.on("claim", away)
			}
			for repeat := range 2 { // which is answered from the record
				told.items = nil
				a.postRecovered(test.key, `{}`)
				require.Equal(t, test.want, told.all(), repeat)
			}
		})
	}
}

// What Run goes on with has a trace of its own, which knows that of the attempt before.
func TestTraceOfAResumedOperation(t *testing.T) {
	for _, attempts := range []int{store.MaxAttempts, 1} { // the operation is gone on with, or parked
		synctest.Test(t, func(t *testing.T) {
			cfg := core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Resume, MaxAttempts: attempts},
				Resume: resumes(func(ctx context.Context, _ core.Record) (*core.Answer, error) {
					require.Equal(t, true, ctx.Value(startedKey{}))
					require.NoError(t, book(ctx, "sealed", nil))
					return &core.Answer{Status: 201}, nil
				})}
			a, told := newTracedApp(t, cfg, nil)
			r := httptest.NewRequest(http.MethodPost, "/v1/payments", nil)
			inTrace(someTrace)(r)
			r.Header.Set("Idempotency-Key", "k-1")
			r, reply := a.module.Admit(r, pattern, alice)
			require.Nil(t, reply)
			attempt, reply := a.module.Begin(r, pattern, alice)
			require.Nil(t, reply)
			ctx := attempt.Request().Context()
			require.NoError(t, cmpErr(book(ctx, "sealed", nil), core.Checkpoint(ctx))) // and the process dies
			time.Sleep(store.DefaultDeadline + time.Second)
			run, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			require.NoError(t, a.module.Run(run))
			require.Equal(t, []string{"start POST " + pattern + " Resume ",
				"start resumedPOST " + pattern + " Resume " + someTrace, "end"}, told.all())
		})
	}
}

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

// CONTRACT X-13
func TestObservers(t *testing.T) {
	t.Run("all observers are told, in their order, and one that panics keeps none of the others from it", func(t *testing.T) {
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
	})
	t.Run("each tracer adds to the context, and the first one that has a trace is asked for it", func(t *testing.T) {
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
	})
}
