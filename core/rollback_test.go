package core_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/mustrun"
)

// unrendered is what an adapter does with a handler's error that nobody inside the capture renders.
func unrendered(w http.ResponseWriter, _ *http.Request) { w.(*core.Capture).Unrendered() }

// writes answers with a status and n bytes, in pieces of a hundred.
func writes(code, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		for ; n > 0; n -= 100 {
			_, _ = w.Write(make([]byte, min(n, 100)))
		}
	}
}

// CONTRACT, M-2, M-1, X-6, M-6
func TestRollbackAttempts(t *testing.T) {
	t.Run("from the first byte above the cap on, the handler learns that its answer is lost", func(t *testing.T) {
		var errs []error
		a := newRowsApp(t, core.Config{Policy: core.Policy{MaxAnswer: 10}}, books(func(w http.ResponseWriter, _ *http.Request) {
			for _, piece := range []string{"0123456789", "x", "y"} {
				_, err := w.Write([]byte(piece))
				_, errOfString := io.WriteString(w, "")
				errs = append(errs, err, errOfString)
			}
		}))
		requireProblem(t, a.post("k-1", `{}`), http.StatusInternalServerError, core.CodeAnswerTooLarge)
		for i, err := range errs {
			if i < 2 {
				require.NoError(t, err, "exactly at the cap")
			} else {
				require.ErrorContains(t, err, "above MaxAnswer")
			}
		}
		require.Len(t, errs, 6)
	})
	t.Run("Rollback does not stream", func(t *testing.T) {
		store := newRowsApp(t, core.Config{}, created).store
		_, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback, Streaming: true}})
		require.ErrorContains(t, err, "Policy: Streaming: no byte of a Rollback route leaves before COMMIT")
	})
	t.Run("what the handler has left behind ends with it", func(t *testing.T) {
		var seen context.Context
		a := newRowsApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
			seen = r.Context()
			deadline, ok := seen.Deadline()
			require.True(t, ok)
			require.WithinDuration(t, time.Now().Add(store.DefaultDeadline), deadline, 10*time.Second)
			books(created)(w, r)
		})
		a.post("k-1", `{}`)
		require.ErrorIs(t, seen.Err(), context.Canceled)
		require.Error(t, gormstore.Tx(seen).Create(&booking{Name: "late"}).Error)
		require.Equal(t, 1, a.rows())
	})
	// A handler that goes on after its deadline has no transaction any more: the key is free while it still runs.
	t.Run("Rollback at the deadline waits for no handler", func(t *testing.T) {
		a := newRowsApp(t, core.Config{Policy: core.Policy{Deadline: time.Second}}, nil)
		tookOver := mustrun.New(t)
		a.handler = books(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			a.handler = books(created)
			require.Eventually(t, func() bool {
				return a.post("k-1", `{}`).Header().Get("Idempotency-Result") == "created"
			}, 10*time.Second, 10*time.Millisecond)
			tookOver()
			created(w, r)
		})
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeRolledBack)
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, 1, a.rows())
	})
	// The record of another attempt stands in the way of this one's: everything is undone, and the client is told what a
	// repeat is told.
	t.Run("Rollback that loses is a repeat", func(t *testing.T) {
		inner := false
		a := newRowsApp(t, core.Config{}, books(func(w http.ResponseWriter, _ *http.Request) {
			if inner {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		}))
		a.faults.on("end", func(context.Context) error {
			if inner {
				return nil
			}
			inner = true // the other attempt, once this one is rolled back
			require.Equal(t, http.StatusAccepted, a.post("k-1", `{}`).Code)
			return core.ErrStale
		})
		w := a.post("k-1", `{}`)
		require.Equal(t, http.StatusAccepted, w.Code, w.Body)
		require.Equal(t, "reused", w.Header().Get("Idempotency-Result"))
		require.Equal(t, 1, a.rows())

		a.faults.on("end", func(context.Context) error { return core.ErrStale })
		requireProblem(t, a.post("k-2", `{}`), http.StatusConflict, core.CodeInFlight)
		require.Equal(t, 1, a.rows())

		a.faults.on("find", away)
		requireProblem(t, a.post("k-3", `{}`), http.StatusServiceUnavailable, core.CodeCommitUnconfirmed)
	})
}

// tooLarge answers with a status and more than MaxAnswer, in pieces of which the last would fit again.
func tooLarge(code int) http.HandlerFunc { return writes(code, 1050) }

// serveOnce sends a command whose handler may panic, and returns what the client gets if nothing recovers it.
func (a *app) serveOnce(key string) (w *httptest.ResponseRecorder, panicked any) {
	a.t.Helper()
	w = httptest.NewRecorder()
	defer func() { panicked = recover() }()
	r := newCommand(key, "")
	a.serve(w, r, alice)
	return w, nil
}

// CONTRACT
func TestRollbackEndings(t *testing.T) {
	keepRows := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { core.KeepRows(r.Context()); next(w, r) }
	}
	const (
		full  = store.DefaultRetention
		short = core.DefaultInvalidRetention
	)
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		first   int // status of the first answer; 0: it panics
		code    core.Code
		rows    int           // how many it leaves behind
		kept    time.Duration // how long the answer is recorded; 0: the key is free
		event   core.EventKind
	}{
		"200":                {status(200), 200, "", 1, full, core.EventCompleted},
		"201":                {created, 201, "", 1, full, core.EventCompleted},
		"303":                {status(303), 303, "", 1, full, core.EventCompleted},
		"nothing":            {func(http.ResponseWriter, *http.Request) {}, 200, "", 1, full, core.EventCompleted},
		"400":                {status(400), 400, "", 0, short, core.EventCompleted},
		"401":                {status(401), 401, "", 0, 0, core.EventRolledBack},
		"402":                {status(402), 402, "", 0, full, core.EventCompleted},
		"403":                {status(403), 403, "", 0, 0, core.EventRolledBack},
		"404":                {status(404), 404, "", 0, full, core.EventCompleted},
		"409":                {status(409), 409, "", 0, full, core.EventCompleted},
		"422":                {status(422), 422, "", 0, short, core.EventCompleted},
		"429":                {status(429), 429, "", 0, 0, core.EventRolledBack},
		"499":                {status(499), 499, "", 0, full, core.EventCompleted},
		"500":                {status(500), 500, "", 0, 0, core.EventRolledBack},
		"503":                {status(503), 503, "", 0, 0, core.EventRolledBack},
		"panic":              {func(http.ResponseWriter, *http.Request) { panic("boom") }, 0, "", 0, 0, core.EventRolledBack},
		"panic midway":       {func(w http.ResponseWriter, _ *http.Request) { created(w, nil); panic("boom") }, 0, "", 0, 0, core.EventRolledBack},
		"unrendered":         {unrendered, 500, "", 0, 0, core.EventRolledBack},
		"402 undecided":      {notApplied(status(402)), 402, "", 0, 0, core.EventRolledBack},
		"503 undecided":      {notApplied(status(503)), 503, "", 0, 0, core.EventRolledBack},
		"201 undecided":      {notApplied(created), 201, "", 1, full, core.EventNotAppliedRefused},
		"402 kept":           {keepRows(status(402)), 402, "", 1, full, core.EventCompleted},
		"400 kept":           {keepRows(status(400)), 400, "", 1, full, core.EventCompleted},
		"429 kept":           {keepRows(status(429)), 429, "", 1, full, core.EventCompleted},
		"500 kept":           {keepRows(status(500)), 500, "", 0, 0, core.EventRolledBack},
		"402 both":           {keepRows(notApplied(status(402))), 402, "", 0, 0, core.EventRolledBack},
		"200 failed":         {failed(status(200)), 200, "", 0, 0, core.EventRolledBack},
		"402 failed":         {failed(status(402)), 402, "", 0, 0, core.EventRolledBack},
		"failed, kept":       {keepRows(failed(status(200))), 200, "", 0, 0, core.EventRolledBack},
		"409 relayed failed": {relays(409, "in_flight"), 409, "", 0, 0, core.EventRolledBack},
		"relayed 200":        {relays(200, "in_flight"), 503, core.CodeRolledBack, 0, 0, core.EventRolledBack},
		"cap":                {writes(201, 1000), 201, "", 1, full, core.EventCompleted},
		"above cap":          {tooLarge(201), 500, core.CodeAnswerTooLarge, 0, 0, core.EventRolledBack},
		"above cap 403":      {tooLarge(403), 500, core.CodeAnswerTooLarge, 0, 0, core.EventRolledBack},
		"above cap 500":      {tooLarge(500), 500, core.CodeAnswerTooLarge, 0, 0, core.EventRolledBack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newRowsApp(t, core.Config{Policy: core.Policy{MaxAnswer: 1000}}, books(test.handler))
			first, panicked := a.serveOnce("k-1")
			switch {
			case test.code != "":
				requireProblem(t, first, test.first, test.code)
			case test.first == 0:
				require.Equal(t, "boom", panicked)
			default:
				require.Equal(t, test.first, first.Code)
			}
			require.Len(t, a.of(test.event), 1)
			ends := a.ends()
			require.Len(t, ends, 1, "one event says that the attempt has ended")
			require.Positive(t, ends[0].Attempt)
			require.Positive(t, ends[0].Recording)
			require.LessOrEqual(t, ends[0].Recording, ends[0].Attempt)
			if test.code == "" && test.first != 0 { // else the client gets another one
				require.Equal(t, test.first, a.of(test.event)[0].Status)
			}
			require.Equal(t, test.rows, a.rows())
			require.NotEqual(t, "unknown", first.Header().Get("Idempotency-Result"), "a transaction leaves nothing unknown")
			freed := test.kept == 0 && test.first >= 400 && test.first < 500 && !strings.HasSuffix(name, " failed") // those may be repeated
			require.Equal(t, freed, first.Header().Get("Idempotency-Result") == "not_applied")

			if test.kept != 0 {
				rec := a.record("k-1")
				require.WithinDuration(t, rec.CreatedAt.Add(test.kept), rec.ExpiresAt, 10*time.Second)
				tombstone := store.DefaultTombstone
				if test.kept == short {
					tombstone = 0
				}
				require.Equal(t, tombstone, rec.PurgeAt.Sub(rec.ExpiresAt))
			}
			a.handler = books(status(http.StatusAccepted))
			second, _ := a.serveOnce("k-1")
			if test.kept != 0 {
				require.Equal(t, "reused", second.Header().Get("Idempotency-Result"))
				require.Equal(t, first.Code, second.Code)
				require.Equal(t, first.Body.String(), second.Body.String())
				require.Equal(t, test.rows, a.rows())
			} else {
				require.Equal(t, "created", second.Header().Get("Idempotency-Result"), "the key is free")
				require.Equal(t, test.rows+1, a.rows())
			}
		})
	}
}

// The handler is not abandoned: it may end whenever it likes, but nothing of it is kept.
//
// CONTRACT
func TestRollbackAtTheDeadline(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		status  int
		code    core.Code
	}{
		"success": {created, 503, core.CodeRolledBack},
		"refusal": {status(402), 503, core.CodeRolledBack},
		"failure": {status(500), 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var undone sync.Once
			over := make(chan struct{})
			a := newRowsApp(t, core.Config{Policy: core.Policy{Deadline: 3 * time.Second}},
				books(func(w http.ResponseWriter, r *http.Request) {
					<-over // a statement that the deadline cuts off would ask for a repeat
					require.Error(t, r.Context().Err())
					// It goes on as if nothing had happened.
					_ = gormstore.Tx(context.WithoutCancel(r.Context())).Create(&booking{Name: "late"}).Error
					test.handler(w, r)
				}))
			a.faults.on("end", func(context.Context) error {
				undone.Do(func() { close(over) })
				return nil
			})
			first := a.post("k-1", `{}`)
			require.Equal(t, test.status, first.Code, first.Body)
			if test.code != "" {
				requireProblem(t, first, test.status, test.code)
				require.Equal(t, "2", first.Header().Get("Retry-After"))
			}
			require.Empty(t, first.Header().Get("Idempotency-Result"))
			require.Empty(t, first.Header().Get("Location"))
			require.Zero(t, a.rows())
			require.Contains(t, a.kinds(), core.EventRolledBack)
			require.Contains(t, a.kinds(), core.EventOverdue)
			a.handler = books(created)
			require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"), "the key is free")
			require.Equal(t, 1, a.rows())
		})
	}
}

// A conflict is one that only PostgreSQL has: gormstore's own tests provoke it there. It wins over the answer.
//
// CONTRACT, F-1
func TestErrorsAroundTheTransaction(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		hook    string
		err     error
		status  int
		code    core.Code
		result  string
		retry   string
		event   core.EventKind
		rows    int // of the first attempt and its repeat
	}{
		"before the claim":       {created, "begin", errAway, 503, core.CodeStoreUnavailable, "", "2", core.EventFailed, 1},
		"a conflict":             {created, "end", core.ErrRetryable, 503, core.CodeRolledBack, "", "2", core.EventRolledBack, 1},
		"a conflict, 400":        {status(400), "end", core.ErrRetryable, 503, core.CodeRolledBack, "", "2", core.EventRolledBack, 1},
		"a conflict, 401":        {status(401), "end", core.ErrRetryable, 503, core.CodeRolledBack, "", "2", core.EventRolledBack, 1},
		"a conflict, 500":        {status(500), "end", core.ErrRetryable, 503, core.CodeRolledBack, "", "2", core.EventRolledBack, 1},
		"a conflict, unrendered": {unrendered, "end", core.ErrRetryable, 503, core.CodeRolledBack, "", "2", core.EventRolledBack, 1},
		"aborted":                {created, "end", core.ErrAborted, 500, core.CodeTransactionAborted, "", "", core.EventRolledBack, 1},
		"ended by the handler":   {created, "end", store.ErrEnded, 409, core.CodeOutcomeUnknown, "unknown", "", core.EventUnknown, 1},
		"ended, 402":             {status(402), "end", store.ErrEnded, 409, core.CodeOutcomeUnknown, "unknown", "", core.EventUnknown, 1},
		"ended, 500":             {status(500), "end", store.ErrEnded, 409, core.CodeOutcomeUnknown, "unknown", "", core.EventUnknown, 1},
		"unconfirmed":            {created, "after commit", core.ErrUnconfirmed, 503, core.CodeCommitUnconfirmed, "unknown", "2", core.EventUnconfirmed, 1},
		"nobody knows":           {created, "after commit", errAway, 503, core.CodeCommitUnconfirmed, "unknown", "2", core.EventUnconfirmed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newRowsApp(t, core.Config{}, books(test.handler))
			a.faults.on(test.hook, func(context.Context) error { return test.err })
			first := a.post("k-1", `{}`)
			requireProblem(t, first, test.status, test.code)
			require.Equal(t, test.retry, first.Header().Get("Retry-After"))
			require.Equal(t, test.result, first.Header().Get("Idempotency-Result"))
			require.Equal(t, "k-1", first.Header().Get("Idempotency-Key"))
			require.Empty(t, first.Header().Get("Location"), "nothing of the answer leaves")
			require.Len(t, a.of(test.event), 1)
			require.ErrorIs(t, a.of(test.event)[0].Err, test.err)
			require.Equal(t, test.code, a.of(core.EventRefused)[0].Code)
			require.NotContains(t, a.kinds(), core.EventCompleted)
			require.Equal(t, test.hook != "begin", strings.Contains(first.Body.String(), idOf("k-1")))
			require.Equal(t, test.hook == "after commit", a.rows() > 0)

			a.faults.on(test.hook, nil)
			a.handler = books(created)
			second := a.post("k-1", `{}`)
			require.Equal(t, http.StatusCreated, second.Code, "the repeat finds the truth")
			require.Equal(t, test.hook == "after commit", second.Header().Get("Idempotency-Result") == "reused")
			require.Equal(t, test.rows, a.rows())
		})
	}
}
