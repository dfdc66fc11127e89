package core_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

func withMaxOpen(n int) core.Config {
	return core.Config{Policy: core.Policy{Recovery: core.Park, MaxOpen: n}}
}

// CONTRACT M-1, M-3, M-4, X-7, R-6, M-2, X-3, F-1
func TestMaxOpen(t *testing.T) {
	// A principal at its cap gets no new key in, and an answer to every other; another principal does not notice.
	t.Run("max open", func(t *testing.T) {
		a := newApp(t, withMaxOpen(2), created)
		require.Equal(t, http.StatusCreated, a.post("done", `{}`).Code)
		a.handler = status(502)
		a.post("unknown-1", `{}`)
		a.post("unknown-2", `{}`)
		a.handler = created

		ran := a.ran()
		w := a.post("new", `{}`)
		requireProblem(t, w, http.StatusTooManyRequests, core.CodeTooManyOpen)
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		require.NotContains(t, w.Body.String(), `"operation"`, "there is none")
		require.Equal(t, "reused", a.post("done", `{}`).Header().Get("Idempotency-Result"))
		requireProblem(t, a.post("done", `{"other":1}`), http.StatusConflict, core.CodeKeyReused)
		requireProblem(t, a.post("unknown-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		require.Equal(t, ran, a.ran())

		bob := core.Principal{Issuer: alice.Issuer, Subject: "bob"}
		require.Equal(t, http.StatusCreated, a.postAs(bob, "new", `{}`).Code)
	})
	inBubble(t, "nothing is left of a refused command: its key works as soon as there is room", func(t *testing.T) {
		a := newApp(t, withMaxOpen(1), status(502))
		a.post("unknown", `{}`)
		a.handler = created
		requireProblem(t, a.post("new", `{}`), http.StatusTooManyRequests, core.CodeTooManyOpen)
		time.Sleep(store.DefaultDeadline + time.Second)
		requireProblem(t, a.post("new", `{}`), http.StatusTooManyRequests, core.CodeTooManyOpen)

		a.settle("unknown", nil)
		require.Equal(t, "created", a.post("new", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, "created", a.post("unknown", `{}`).Header().Get("Idempotency-Result"), "free, and so a new one")
	})
	t.Run("a key that was freed is a new one, and a running attempt's repeat is told that it is running", func(t *testing.T) {
		a := newApp(t, withMaxOpen(1), nil)
		a.handler = func(w http.ResponseWriter, r *http.Request) {
			requireProblem(t, a.post("running", `{}`), http.StatusConflict, core.CodeInFlight)
			requireProblem(t, a.post("freed", `{}`), http.StatusTooManyRequests, core.CodeTooManyOpen)
			created(w, r)
		}
		release := a.handler
		a.handler = notApplied(status(http.StatusServiceUnavailable))
		a.post("freed", `{}`)
		a.handler = release
		require.Equal(t, http.StatusCreated, a.post("running", `{}`).Code)
	})
	t.Run("a Resume operation goes on although its principal is at the cap: it is one of the open ones", func(t *testing.T) {
		cfg := withMaxOpen(1)
		cfg.Policy.Recovery = core.Resume
		a := newApp(t, cfg, sealed(status(502))) // it has yielded: the next repeat goes on
		a.post("k-1", `{}`)
		a.handler = sealed(created)
		requireProblem(t, a.post("k-2", `{}`), http.StatusTooManyRequests, core.CodeTooManyOpen)
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, "created", a.post("k-2", `{}`).Header().Get("Idempotency-Result"))
	})
	t.Run("max open where the store is away", func(t *testing.T) {
		cfg := withMaxOpen(1)
		cfg.Store = countingStore{memstore.New(), func() (int, error) { return 0, errAway }}
		a := newApp(t, cfg, created)
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Zero(t, a.ran())
		require.ErrorIs(t, a.of(core.EventFailed)[0].Err, errAway)
	})
	t.Run("max open off costs nothing", func(t *testing.T) {
		cfg := withMaxOpen(0)
		cfg.Store = countingStore{memstore.New(), func() (int, error) { panic("nobody asked for it") }}
		a := newApp(t, cfg, created)
		for i := range 3 {
			require.Equal(t, http.StatusCreated, a.post("k-"+strconv.Itoa(i), `{}`).Code)
		}
	})
	t.Run("max open config", func(t *testing.T) {
		// A route takes it from the module's own policy.
		m, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{MaxOpen: 7},
			Routes: core.Routes{"POST /a": {Recovery: core.Park}, "POST /b": {Recovery: core.Park, MaxOpen: 3}}})
		require.NoError(t, err)
		require.Equal(t, 7, m.Declared()[0].Policy.MaxOpen)
		require.Equal(t, 3, m.Declared()[1].Policy.MaxOpen)
	})
}

// countingStore fails or forbids the counting.
type countingStore struct {
	*memstore.Store
	count func() (int, error)
}

func (s countingStore) CountOpen(context.Context, store.Scope, int) (int, error) { return s.count() }
