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
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// push sends an operator's word on an operation.
func (a *app) push(what operations.Handler, body string) *httptest.ResponseRecorder {
	a.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	return written(a.t, operations.New(a.module).Serve(what, r, operator, idOf("k-1")))
}

// An operator knows that the provider is back: the operation does not wait for its pause, and Run goes on at once.
//
// CONTRACT X-10
func TestAnOperatorTriesAgainNow(t *testing.T) {
	eachInBubble(t, map[string]func(*app, string) *httptest.ResponseRecorder{
		"within a pause": func(a *app, body string) *httptest.ResponseRecorder { return a.push(operations.Retry, body) },
		"on a guarded route": func(a *app, body string) *httptest.ResponseRecorder {
			a.handler = func(w http.ResponseWriter, r *http.Request) {
				require.NoError(a.t, operations.New(a.module).Serve(operations.Retry, r, operator, idOf("k-1")).SendTo(w, r))
			}
			return a.postAs(operator, "push-1", body)
		},
	}, func(t *testing.T, push func(*app, string) *httptest.ResponseRecorder) {
		st := memstore.New()
		const posts = 12
		a := outage(t, st, (posts-1)*store.MaxPause+time.Second)
		for i := range posts {
			time.Sleep(store.MaxPause * time.Duration(min(i, 1)))
			require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		}
		time.Sleep(store.DefaultDeadline)
		stop := a.start() // it finds a pause
		defer stop()
		synctest.Wait()
		rec := find(t, st, "k-1")
		require.True(t, rec.HalfDone())
		require.Greater(t, rec.NextAttempt(store.DefaultPause).Sub(rec.Now), time.Second)
		for _, body := range []string{``, `{}`, `{"fence":1}`, `{"fence":1,"reason":" "}`, `{"fence":1,"reason":"r","x":1}`} {
			requireProblem(t, a.push(operations.Retry, body), http.StatusBadRequest, core.CodeBadRequest)
		}
		requireProblem(t, a.push(operations.Retry, `{"fence":1,"reason":"r"}`), http.StatusConflict, core.CodeNotSettleable)
		now := time.Now()
		w := push(a, `{"fence":`+strconv.FormatInt(rec.Fence, 10)+`,"reason":"the provider is back"}`)
		require.Equal(t, http.StatusAccepted, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `"state":"half_done"`)
		time.Sleep(time.Second)
		require.Equal(t, store.Completed, find(t, st, "k-1").State(), "Run was woken")
		require.Less(t, time.Since(now), 2*time.Second)
		told := a.of(core.EventRetried)
		require.Len(t, told, 1)
		require.Equal(t, "the provider is back", told[0].Why)
		history := st.Settlements(core.Scoping{}.RecordID(alice, "k-1"))
		require.Len(t, history, 1)
		require.Equal(t, history[0].Before.Ticket, history[0].After.Ticket)
	})
	inBubble(t, "it does not lift ResumeFor", func(t *testing.T) {
		st := memstore.New()
		a := outage(t, st, 48*time.Hour)
		a.post("k-1", `{}`)
		time.Sleep(core.DefaultResumeFor)
		require.Equal(t, http.StatusAccepted, a.push(operations.Retry, `{"fence":1,"reason":"r"}`).Code)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
	})
	inBubble(t, "it lifts neither a call's window nor changed steps", func(t *testing.T) {
		a := newOpsApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, nil)
		called := 0
		charging := func(name string) http.HandlerFunc {
			return flow(func(ctx context.Context) (int, error) {
				return http.StatusCreated, core.CallDo(ctx, name, func(context.Context, core.DerivedKey) error {
					called++
					return errProvider
				}, core.Dedup(time.Hour))
			}).ServeHTTP
		}
		a.handler = charging("charge")
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		time.Sleep(store.DefaultDeadline)
		require.Equal(t, http.StatusAccepted, a.push(operations.Retry, `{"fence":1,"reason":"r"}`).Code)
		a.handler = charging("another")
		requireProblem(t, a.post("k-1", `{}`), http.StatusInternalServerError, core.CodeStepsChanged)
		time.Sleep(time.Hour)
		require.Equal(t, http.StatusAccepted, a.push(operations.Retry, `{"fence":2,"reason":"r"}`).Code)
		a.handler = charging("charge")
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		require.Equal(t, 1, called)
	})
}

// By a clock that is too far from the store's nothing is changed, and somebody is told.
//
// CONTRACT T-5
func TestAPushByAWrongClock(t *testing.T) {
	inBubble(t, "two hours ahead", func(t *testing.T) {
		var ahead time.Duration
		st := memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(ahead) }))
		a := outage(t, st, 48*time.Hour)
		a.post("k-1", `{}`)
		time.Sleep(store.DefaultDeadline)
		ahead = 2 * time.Hour
		requireProblem(t, a.push(operations.Retry, `{"fence":1,"reason":"r"}`), http.StatusServiceUnavailable,
			core.CodeStoreUnavailable)
		require.Len(t, a.of(core.EventClockSkew), 1)
		require.Empty(t, a.of(core.EventRetried))
	})
}

// What is given up is parked, and can be settled; beside a newer fence it is refused.
//
// CONTRACT
func TestAnOperatorGivesUp(t *testing.T) {
	inBubble(t, "a half-done operation", func(t *testing.T) {
		st := memstore.New()
		a := outage(t, st, 48*time.Hour)
		a.post("k-1", `{}`)
		requireProblem(t, a.push(operations.GiveUp, `{"fence":1,"reason":"r"}`), http.StatusConflict, core.CodeNotSettleable)
		time.Sleep(store.DefaultDeadline)
		a.post("k-1", `{}`)
		time.Sleep(store.DefaultDeadline)
		requireProblem(t, a.push(operations.GiveUp, `{"fence":1,"reason":"r"}`), http.StatusConflict, core.CodeNotSettleable)
		w := a.push(operations.GiveUp, `{"fence":2,"reason":"the provider has closed the account"}`)
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), `"state":"unknown"`)
		require.Len(t, a.of(core.EventGivenUp), 1)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		require.Equal(t, http.StatusOK, a.serveSettle(operator, idOf("k-1"), `{"outcome":"not_applied","reason":"r","fence":2}`).Code)
	})
	requireProblem(t, written(t, operations.New(newOpsApp(t, core.Config{}, nil).module).Serve(operations.GiveUp, httptest.NewRequest(http.MethodPost, "/",
		strings.NewReader(`{"fence":1,"reason":"r"}`)), alice, idOf("k-1"))), http.StatusForbidden, core.CodeForbidden)
}

// An operator of another tenant does not hear that there is such an operation; one that has not committed is left alone.
//
// CONTRACT S-5, X-10
func TestAPushOfWhatIsNotTheirs(t *testing.T) {
	inBubble(t, "a half-done operation", func(t *testing.T) {
		st := memstore.New()
		a := outage(t, st, 48*time.Hour)
		a.post("k-1", `{}`)
		time.Sleep(store.DefaultDeadline)
		stranger := operator
		stranger.Tenant = "another"
		for _, what := range []operations.Handler{operations.Retry, operations.GiveUp} {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"fence":1,"reason":"r"}`))
			requireProblem(t, written(t, operations.New(a.module).Serve(what, r, stranger, idOf("k-1"))), http.StatusNotFound, core.CodeNotFound)
		}
		require.True(t, find(t, st, "k-1").HalfDone())
		refused := a.serveSettle(operator, idOf("k-1"), `{"outcome":"not_applied","reason":"r","fence":1}`)
		requireProblem(t, refused, http.StatusConflict, core.CodeNotSettleable)
		require.Contains(t, refused.Body.String(), "the operation is half-done", "it has to be pushed or given up")

		a.handler = func(http.ResponseWriter, *http.Request) { // it runs, and has no record
			for _, what := range []operations.Handler{operations.Retry, operations.GiveUp} {
				r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"fence":1,"reason":"r"}`))
				requireProblem(t, written(t, operations.New(a.module).Serve(what, r, operator, idOf("k-2"))), http.StatusConflict, core.CodeInFlight)
			}
		}
		a.post("k-2", `{}`)
	})
}
