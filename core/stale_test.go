package core_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// late is a policy whose attempts can be settled after a second.
var late = core.Policy{Recovery: core.Park, Lease: time.Second, Deadline: time.Second, Streaming: true, MaxAnswer: 100}

// outlived runs handler in an attempt that has outlived its lease and deadline, so that it can be settled.
func outlived(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Second)
		handler(w, r)
	}
}

// settle settles the operation of alice's key as not applied, or as applied with an answer.
func (a *app) settle(key string, answer *core.Answer) {
	a.t.Helper()
	d := core.Decision{Applied: answer != nil, Answer: answer, Who: "op", Why: "asked the provider"}
	_, err := operations.New(a.module).Settle(a.t.Context(), core.Scoping{}.RecordID(alice, key), d)
	require.NoError(a.t, err)
}

// CONTRACT, M-1, R-4
func TestLateOwner(t *testing.T) {
	inBubble(t, "settled as not applied, it is told so, and the key is free", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: late}, nil)
		a.handler = outlived(func(w http.ResponseWriter, r *http.Request) { a.settle("k-1", nil); created(w, r) })
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		require.Contains(t, a.kinds(), core.EventStale)
		a.handler = created
		requireCreated(t, a.post("k-1", `{}`), "created")
	})
	inBubble(t, "settled as applied, it gets the settled answer", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: late}, nil)
		a.handler = outlived(func(w http.ResponseWriter, r *http.Request) {
			a.settle("k-1", &core.Answer{Status: 202, Body: []byte("settled")})
			created(w, r)
		})
		for range 2 {
			w := a.post("k-1", `{}`)
			require.Equal(t, 202, w.Code)
			require.Equal(t, "settled", w.Body.String())
		}
	})
	inBubble(t, "the key is free after the settlement; whoever uses it next is not the owner that wakes up late", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: late}, nil)
		a.handler = outlived(func(w http.ResponseWriter, r *http.Request) {
			a.settle("k-1", nil)
			a.handler = created
			require.Equal(t, http.StatusCreated, a.post("k-1", `{"another":"command"}`).Code)
			w.WriteHeader(http.StatusAccepted)
		})
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusConflict, core.CodeOutcomeUnknown)
		require.Empty(t, w.Header().Get("Location"))
	})
	inBubble(t, "late owner of an answer that was not kept", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: late}, nil)
		a.handler = outlived(func(w http.ResponseWriter, r *http.Request) {
			a.settle("k-1", nil)
			a.handler = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/v1/payments/2")
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte(strings.Repeat("x", 101)))
			}
			require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
			w.WriteHeader(http.StatusAccepted)
		})
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusConflict, core.CodeResponseNotReplayable)
		require.Contains(t, w.Body.String(), `"answer_location":"/v1/payments/2"`)
	})
	inBubble(t, "unsettled, it frees the key that was unknown, and says so", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: late}, nil)
		begun := make(chan struct{})
		a.handler = outlived(func(w http.ResponseWriter, r *http.Request) {
			<-begun
			core.NotApplied(r.Context())
			w.WriteHeader(http.StatusBadGateway)
		})
		go a.post("k-1", `{}`)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		close(begun)
		synctest.Wait()
		require.Len(t, a.of(core.EventFreed), 1)
		var buf bytes.Buffer
		core.LogObserver(logInto(&buf, slog.LevelInfo)).Observe(t.Context(), a.of(core.EventFreed)[0])
		require.Contains(t, buf.String(), `"msg":"idem: freed","operation":"`+idOf("k-1")+`"`)
		require.Contains(t, buf.String(), "the lease had run out")
		a.handler = created
		requireCreated(t, a.post("k-1", `{}`), "created")
	})
	inBubble(t, "late owner that failed is told of", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: late}, nil)
		a.handler = outlived(func(w http.ResponseWriter, _ *http.Request) {
			a.settle("k-1", &core.Answer{Status: 202, Body: []byte("settled")})
			w.WriteHeader(http.StatusBadGateway)
		})
		w := a.post("k-1", `{}`)
		require.Equal(t, http.StatusBadGateway, w.Code)
		require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
		require.Contains(t, a.kinds(), core.EventStale)
		require.NotContains(t, a.kinds(), core.EventUnknown, "it needs no settlement any more")
		require.Equal(t, "settled", a.post("k-1", `{}`).Body.String())
	})
}

// A Resume attempt that was overtaken is going on elsewhere, which is no reason to think that nobody knows its outcome;
// but whatever has become of the key since under another command is none of its client's business.
//
// CONTRACT X-2, M-2
func TestOvertakenOwnerIsToldThatItsCommandIsRunning(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile string // the command of the attempt that is running when the owner wakes up
		status    int
		want      core.Code
	}{
		"its own command":    {`{}`, http.StatusConflict, core.CodeInFlight},
		"of another command": {`{"another":"command"}`, http.StatusConflict, core.CodeOutcomeUnknown},
		"nobody can look":    {`{}`, http.StatusServiceUnavailable, core.CodeCommitUnconfirmed}, // a repeat learns it
	} {
		inBubble(t, name, func(t *testing.T) {
			st, leave := newFaultStore(memstore.New()), make(chan struct{})
			a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume}}, nil)
			var wg sync.WaitGroup
			a.handler = sealed(func(w http.ResponseWriter, r *http.Request) {
				a.handler = sealed(func(w http.ResponseWriter, r *http.Request) { <-leave; created(w, r) })
				rec := find(t, st, "k-1")
				if name == "of another command" { // settled as not applied, and used again
					require.NoError(t, st.End(t.Context(), rec.Ticket, store.Ending{State: store.Free}))
				}
				time.Sleep(store.DefaultLease)
				wg.Go(func() { a.post("k-1", test.meanwhile) })
				synctest.Wait()
				require.Equal(t, 2, a.ran())
				if name == "nobody can look" {
					st.on("find", away)
				}
				created(w, r)
			})
			st.on("renew", away)
			requireProblem(t, a.post("k-1", `{}`), test.status, test.want)
			require.Equal(t, http.StatusCreated, a.of(core.EventStale)[0].Status, "what its client was not told")
			close(leave)
			wg.Wait()
		})
	}
}
