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
)

// recycledExchange is the exchange of a framework that reuses its contexts.
type recycledExchange struct {
	countedExchange
	next      func() error
	recycled  *int
	overtaken bool
	answered  bool
	did       []string // what a guard has done to the context, apart from its questions
}

func newRecycledExchange(body io.Reader) *recycledExchange {
	r := httptest.NewRequest(http.MethodPost, pattern, body)
	r.Header.Set(core.DefaultHeader, "k-1")
	return &recycledExchange{countedExchange: countedExchange{w: httptest.NewRecorder(), r: r}, recycled: new(int)}
}

func (x *recycledExchange) Recycled() any    { return x.recycled }
func (x *recycledExchange) Overtaken() bool  { return x.overtaken }
func (x *recycledExchange) Answered() bool   { return x.answered }
func (x *recycledExchange) Send(*core.Reply) { x.did = append(x.did, "send") }
func (x *recycledExchange) Sent(error)       { x.did = append(x.did, "sent") }
func (x *recycledExchange) Shut()            { x.did = append(x.did, "shut") }
func (x *recycledExchange) Leave(bool)       { x.did = append(x.did, "leave") }
func (x *recycledExchange) Next() error      { x.did = append(x.did, "next"); return x.next() }

// giveAway is what a framework does that takes a request for finished.
func (x *recycledExchange) giveAway() *http.Request {
	ctx := context.WithValue(context.Background(), http.ServerContextKey, &http.Server{})
	x.r, x.did = httptest.NewRequestWithContext(ctx, http.MethodGet, "/of-somebody-else", http.NoBody), nil
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
	newModule := func(cfg core.Config) (*core.Module, *list[core.EventKind]) {
		var told list[core.EventKind]
		cfg.Policy.Recovery = core.Park
		cfg.Observer = core.ObserverFunc(func(_ context.Context, e core.Event) { told.add(e.Kind) })
		m := newModule(t, cfg)
		return m, &told
	}
	t.Run("while the guard reads the body", func(t *testing.T) {
		m, told := newModule(core.Config{Store: memstore.New()})
		body := &givesAway{}
		x := newRecycledExchange(body)
		x.r.ContentLength, body.x = 0, x
		require.NoError(t, m.Idempotent(x))
		require.Same(t, body.other, x.r)
		require.Empty(t, x.did)
		require.Empty(t, told.all())
	})
	t.Run("while the key is claimed", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		m, told := newModule(core.Config{Store: store})
		for _, want := range [][]core.EventKind{
			{core.EventClaimed, core.EventAbandoned, core.EventUnknown},
			{core.EventRefused}, // the repeat finds the unknown outcome, and tells nobody
		} {
			x := newRecycledExchange(strings.NewReader(`{}`))
			var other *http.Request
			store.on("claim", func(context.Context) error { other = x.giveAway(); return nil })
			before := len(told.all())
			require.NoError(t, m.Idempotent(x))
			require.Same(t, other, x.r)
			require.Empty(t, x.did)
			require.Equal(t, want, told.all()[before:])
		}
	})
	t.Run("before the handler panics", func(t *testing.T) {
		m, told := newModule(core.Config{Store: memstore.New()})
		x := newRecycledExchange(strings.NewReader(`{}`))
		var other *http.Request
		x.next = func() error { other = x.giveAway(); panic("boom") }
		require.PanicsWithValue(t, "boom", func() { _ = m.Idempotent(x) })
		require.Same(t, other, x.r)
		require.Empty(t, x.did)
		require.Equal(t, []core.EventKind{core.EventClaimed, core.EventAbandoned, core.EventUnknown}, told.all())
	})
	t.Run("while the answer is recorded", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		m, told := newModule(core.Config{Store: store})
		x := newRecycledExchange(strings.NewReader(`{}`))
		var other *http.Request
		x.next = func() error { return errProvider }
		store.on("complete", func(context.Context) error { other = x.giveAway(); return nil })
		require.ErrorIs(t, m.Idempotent(x), errProvider)
		require.Same(t, other, x.r)
		require.Empty(t, x.did, "a repeat gets the answer")
		require.Equal(t, []core.EventKind{core.EventClaimed, core.EventCompleted}, told.all())
	})
	t.Run("not, but it is answered past the capture", func(t *testing.T) {
		m, told := newModule(core.Config{Store: memstore.New()})
		x := newRecycledExchange(strings.NewReader(`{}`))
		x.next = func() error { x.answered, x.did = true, nil; return nil }
		require.NoError(t, m.Idempotent(x))
		require.Empty(t, x.did)
		require.Equal(t, []core.EventKind{core.EventClaimed, core.EventAbandoned, core.EventUnknown}, told.all())
	})
	t.Run("before the handler fails", func(t *testing.T) {
		m, told := newModule(core.Config{Store: memstore.New()})
		x := newRecycledExchange(strings.NewReader(`{}`))
		x.next = func() error { x.giveAway(); return errProvider }
		require.ErrorIs(t, m.Idempotent(x), errProvider, "for the framework's own error handler")
		require.Empty(t, x.did)
		require.Equal(t, []core.EventKind{core.EventClaimed, core.EventAbandoned, core.EventUnknown}, told.all())
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
