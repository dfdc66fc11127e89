package core_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/wire"
)

// recycledExchange is the exchange of a framework that reuses its contexts.
type recycledExchange struct {
	countedExchange
	next      func() error
	recycled  *int
	overtaken bool
	answered  bool
	given     *http.Request // that has got the context
	did       []string      // what a guard has done to the context, apart from its questions
}

func newRecycledExchange(body io.Reader) *recycledExchange {
	r := httptest.NewRequest(http.MethodPost, pattern, body)
	r.Header.Set(wire.HeaderKey, "k-1")
	return &recycledExchange{countedExchange: countedExchange{w: httptest.NewRecorder(), r: r}, recycled: new(int)}
}

func (x *recycledExchange) Unguardable() string { return "" }
func (x *recycledExchange) Recycled() any       { return x.recycled }
func (x *recycledExchange) Overtaken() bool     { return x.overtaken }
func (x *recycledExchange) Answered() bool      { return x.answered }
func (x *recycledExchange) Send(*core.Reply)    { x.did = append(x.did, "send") }
func (x *recycledExchange) Sent(error)          { x.did = append(x.did, "sent") }
func (x *recycledExchange) Shut()               { x.did = append(x.did, "shut") }
func (x *recycledExchange) Leave(bool)          { x.did = append(x.did, "leave") }
func (x *recycledExchange) Next() error         { x.did = append(x.did, "next"); return x.next() }

// giveAway is what a framework does that takes a request for finished.
func (x *recycledExchange) giveAway() *http.Request {
	ctx := context.WithValue(context.Background(), http.ServerContextKey, &http.Server{})
	x.r, x.did = httptest.NewRequestWithContext(ctx, http.MethodGet, "/of-somebody-else", http.NoBody), nil
	x.given = x.r
	return x.r
}

// givesAway is a body that gives its request's context away when it is read.
type givesAway struct {
	x     *recycledExchange
	other *http.Request
}

func (b *givesAway) Read([]byte) (int, error) {
	b.other = b.x.giveAway()
	return 0, io.EOF
}

// Whenever the context goes to another request, its guard touches neither that request nor its answer. What it has claimed
// ends, with an unknown outcome.
//
// CONTRACT X-12
func TestAContextThatIsGivenAway(t *testing.T) {
	newModule := func(store core.Store) (*core.Module, *list[core.EventKind]) {
		var told list[core.EventKind]
		observer := core.ObserverFunc(func(_ context.Context, e core.Event) { told.add(e.Kind) })
		return newModule(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park}, Observer: observer}), &told
	}
	unknown := []core.EventKind{core.EventClaimed, core.EventAbandoned, core.EventUnknown}
	recorded := []core.EventKind{core.EventClaimed, core.EventCompleted}
	for name, test := range map[string]struct {
		during string                          // the call of the store during which it goes
		next   func(x *recycledExchange) error // the handler
		err    error                           // for the framework's own error handler
		told   []core.EventKind
	}{
		"while the key is claimed":     {"claim", nil, nil, unknown},
		"while the answer is recorded": {"complete", func(*recycledExchange) error { return errProvider }, errProvider, recorded},
		"before the handler panics":    {"", func(x *recycledExchange) error { x.giveAway(); panic("boom") }, nil, unknown},
		"before the handler fails":     {"", func(x *recycledExchange) error { x.giveAway(); return errProvider }, errProvider, unknown},
		"not, but it is answered past the capture": {"", func(x *recycledExchange) error {
			x.answered, x.did, x.given = true, nil, x.r
			return nil
		}, nil, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			store := newFaultStore(memstore.New())
			m, told := newModule(store)
			serve := func() {
				x := newRecycledExchange(strings.NewReader(`{}`))
				x.next = func() error { return test.next(x) }
				store.on(test.during, func(context.Context) error { x.giveAway(); return nil })
				defer func() {
					panicked := recover()
					require.Equal(t, name == "before the handler panics", panicked == "boom", panicked)
					require.Same(t, x.given, x.r)
					require.Empty(t, x.did)
				}()
				require.ErrorIs(t, m.Idempotent(x), test.err)
			}
			serve()
			require.Equal(t, test.told, told.all())
			if test.during == "claim" { // the repeat finds the unknown outcome, and tells nobody
				serve()
				require.Equal(t, append(unknown, core.EventRefused), told.all())
			}
		})
	}
	t.Run("while the guard reads the body", func(t *testing.T) {
		m, told := newModule(memstore.New())
		body := &givesAway{}
		x := newRecycledExchange(body)
		x.r.ContentLength, body.x = 0, x
		require.NoError(t, m.Idempotent(x))
		require.Same(t, body.other, x.r)
		require.Empty(t, x.did)
		require.Empty(t, told.all())
	})
}

// The request that gets the context of a handler at work is refused, and its own handler does not run. If it comes so late
// that the context has the other's writer already, it says nothing at all.
//
// CONTRACT X-12
func TestAContextThatIsInUse(t *testing.T) {
	m := newModule(t, core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	first := newRecycledExchange(strings.NewReader(`{}`))
	first.next = func() error {
		for overtaken, want := range map[bool][]string{false: {"send", "shut"}, true: nil} {
			for _, guard := range []func(core.Exchange) error{m.Idempotent, m.Interceptor} {
				second := newRecycledExchange(strings.NewReader(`{}`))
				second.recycled, second.overtaken = first.recycled, overtaken
				require.NoError(t, guard(second))
				require.Equal(t, want, second.did)
			}
		}
		return errors.New("seen by the framework")
	}
	require.ErrorContains(t, m.Idempotent(first), "seen by the framework")
}

// CONTRACT O-4
func TestRequestAtTheInterceptor(t *testing.T) {
	// The route is looked up once, and the roles are checked once: both are gone after that, and the request goes on.
	t.Run("a request looks up route and roles once", func(t *testing.T) {
		m := newModule(t, core.Config{Store: memstore.New(), Routes: core.Routes{
			"POST /pay": {Recovery: core.Park, Roles: []string{"customer"}},
		}})
		customer := alice
		customer.Roles = []string{"customer"}
		r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader(`{}`))
		r.Header.Set(wire.HeaderKey, "k-1")

		h, reply := m.ReserveFor(r, "/pay", new(int))
		require.Nil(t, reply)
		defer h.Release()
		h.ForgetRoute()
		admitted, reply := h.Admit(r, customer)
		require.Nil(t, reply)
		h.ForgetRoles()
		attempt, reply := h.Begin(admitted, customer)
		require.Nil(t, reply)
		w := httptest.NewRecorder()
		attempt.Capture(w).WriteHeader(http.StatusCreated)
		require.NoError(t, attempt.Finish().WriteTo(w))
		require.Equal(t, http.StatusCreated, w.Code)
	})
	t.Run("inside such an attempt the request's context has nothing but the attempt", func(t *testing.T) {
		m := newModule(t, core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
		r := newCommand("k-1", `{}`)
		h, reply := m.ReserveFor(r, pattern, new(int))
		require.Nil(t, reply)
		defer h.Release()
		admitted, reply := h.Admit(r, alice)
		require.Nil(t, reply)
		attempt, reply := h.Begin(admitted, alice)
		require.Nil(t, reply)
		_, reply = m.Admit(attempt.Request(), pattern, alice)
		require.NotNil(t, reply)
		require.Contains(t, string(reply.Body), "guarded twice")
		require.NoError(t, reply.WriteTo(attempt.Capture(httptest.NewRecorder())))
		require.Equal(t, http.StatusInternalServerError, attempt.Finish().Status)
	})
	t.Run("the three guards in one ask for the caller and for the route once, whatever becomes of the request", func(t *testing.T) {
		m := newModule(t, core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
		for _, tt := range []struct{ name, key, body, result string }{
			{"first request", "k-1", `{}`, wire.ResultCreated},
			{"replay", "k-1", `{}`, wire.ResultReused},
			{"another command", "k-1", `[]`, ""},
			{"no key", "", `{}`, ""},
		} {
			r := newCommand(tt.key, tt.body)
			w := httptest.NewRecorder()
			x := &countedExchange{w: w, r: r}
			require.NoError(t, m.Idempotent(x), tt.name)
			require.Equal(t, tt.result, w.Header().Get(wire.HeaderResult), tt.name)
			require.Equal(t, 1, x.patterns, tt.name)
			require.Equal(t, 1, x.principals, tt.name)
		}
	})
}

// countedExchange counts what it is asked for. Its request is recycled by nobody and overtaken by nobody.
type countedExchange struct {
	core.Exchange
	w                    http.ResponseWriter
	r                    *http.Request
	patterns, principals int
}

func (x *countedExchange) Unguardable() string { return "" }

func (x *countedExchange) Pattern() string {
	x.patterns++
	return pattern
}

func (x *countedExchange) Principal() core.Principal {
	x.principals++
	return alice
}

func (x *countedExchange) Request() *http.Request      { return x.r }
func (x *countedExchange) SetRequest(r *http.Request)  { x.r = r }
func (x *countedExchange) Writer() http.ResponseWriter { return x.w }
func (x *countedExchange) BodyCopies() [][]byte        { return nil }
func (x *countedExchange) StatusOf(error) int          { return 0 }
func (x *countedExchange) Recycled() any               { return nil }
func (x *countedExchange) Answered() bool              { return false }
func (x *countedExchange) Send(reply *core.Reply)      { _ = reply.WriteTo(x.w) }
func (x *countedExchange) Answer(error)                {}
func (x *countedExchange) Leave(bool)                  {}
func (x *countedExchange) Sent(error)                  {}

func (x *countedExchange) Enter(c *core.Capture) any {
	x.w = c
	return nil
}

func (x *countedExchange) Next() error {
	created(x.w, x.r)
	return nil
}
