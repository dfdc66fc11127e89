package core_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// logInto returns a log of the given level, without the time.
func logInto(buf *bytes.Buffer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(buf, &slog.HandlerOptions{Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
}

// CONTRACT K-6
func TestLogObserver(t *testing.T) {
	t.Run("log observer levels", func(t *testing.T) {
		for level, kinds := range map[slog.Level][]core.EventKind{
			slog.LevelDebug: {core.EventClaimed, core.EventCompleted, core.EventFreed, core.EventRolledBack, core.EventYielded,
				core.EventReplayed, core.EventRefused, core.EventResumed, core.EventReconciled,
				core.EventSwept, core.EventCaughtUp, core.EventWouldClaim},
			slog.LevelInfo: {core.EventErasing, core.EventErased, core.EventAnswerRead, core.EventSettled,
				core.EventSettleRefused},
			slog.LevelWarn: {core.EventLeaseLost, core.EventUnknown, core.EventStale, core.EventUnconfirmed,
				core.EventNotAppliedRefused, core.EventFailed, core.EventSuspectedDuplicate, core.EventWouldReplay,
				core.EventWouldRefuse, core.EventShadowed, core.EventOverdue, core.EventTransactionUnused,
				core.EventStatementFailed, core.EventAbandoned},
		} {
			for _, kind := range kinds {
				var buf bytes.Buffer
				core.LogObserver(logInto(&buf, slog.LevelDebug)).Observe(t.Context(), core.Event{Kind: kind})
				require.JSONEq(t, fmt.Sprintf(`{"level":"%s","msg":"idem: %s"}`, level, kind), buf.String())

				buf.Reset()
				core.LogObserver(logInto(&buf, level+1)).Observe(t.Context(), core.Event{Kind: kind})
				require.Empty(t, buf.String(), "the log does not ask for it")
			}
		}
	})
	t.Run("the client learns only that nothing was applied: the log says why, and nothing of the request", func(t *testing.T) {
		for level, err := range map[slog.Level]error{
			slog.LevelInfo: core.ErrRetryable, slog.LevelWarn: core.ErrAborted,
		} {
			event := core.Event{Kind: core.EventRolledBack, Err: fmt.Errorf("%w: %w", err, ofDatabase{})}
			var buf bytes.Buffer
			core.LogObserver(logInto(&buf, level)).Observe(t.Context(), event)
			require.JSONEq(t, fmt.Sprintf(`{"level":"%s","msg":"idem: rolled_back","error":"%s","sqlstate":"22P02"}`, level, err), buf.String())

			buf.Reset()
			core.LogObserver(logInto(&buf, level+1)).Observe(t.Context(), event)
			require.Empty(t, buf.String())
			core.LogObserver(logInto(&buf, slog.LevelDebug)).Observe(t.Context(), event)
			require.Contains(t, buf.String(), "4111", "whoever debugs sees it")
		}
		var buf bytes.Buffer
		core.LogObserver(logInto(&buf, slog.LevelInfo)).Observe(t.Context(), core.Event{Kind: core.EventRolledBack, Err: io.EOF})
		require.JSONEq(t, `{"level":"INFO","msg":"idem: rolled_back"}`, buf.String())
		buf.Reset()
		core.LogObserver(logInto(&buf, slog.LevelInfo)).Observe(t.Context(), core.Event{Kind: core.EventRolledBack})
		require.Empty(t, buf.String(), "the handler has answered with a failure of its own")
	})
	t.Run("a client sees only a 500 of an app whose guards are mounted wrongly: the log says what to correct", func(t *testing.T) {
		var buf bytes.Buffer
		module := newModule(t, core.Config{
			Store: memstore.New(), Routes: core.Routes{"POST /pay": {Recovery: core.Park}},
			Observer: core.LogObserver(logInto(&buf, slog.LevelInfo)),
		})
		caller := core.Principal{Issuer: "https://issuer.example", Subject: "customer-1"}
		request := func(body string) *http.Request {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", strings.NewReader(body))
			r.Header.Set("Idempotency-Key", "key")
			return r
		}

		r := request("a body")
		_, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		_, reply := module.Admit(r, "/pay", caller)
		require.Equal(t, http.StatusInternalServerError, reply.Status)
		require.Contains(t, buf.String(), `"level":"INFO","msg":"idem: refused"`)
		require.Contains(t, buf.String(), `"code":"misconfigured","error":"idem: the body was read before the key guard`)

		buf.Reset()
		require.Equal(t, http.StatusInternalServerError, module.CheckRoles(request(""), "/else", caller).Status)
		require.Contains(t, buf.String(), `"code":"route_undeclared","error":"idem: this route is not in the table of routes`)

		buf.Reset()
		r = request("")
		r.Header.Del("Idempotency-Key")
		_, reply = module.Admit(r, "/pay", caller)
		require.Equal(t, http.StatusBadRequest, reply.Status)
		require.Empty(t, buf.String(), "the client has to correct that")
	})
	t.Run("log observer attributes", func(t *testing.T) {
		var buf bytes.Buffer
		core.LogObserver(logInto(&buf, slog.LevelDebug)).Observe(t.Context(), core.Event{
			Kind: core.EventFailed, Operation: core.ID{1}, Method: "POST", Route: "/pay", Recovery: core.Park, Fence: 2, Status: 201,
			Code: core.CodeInFlight, Count: 3, Err: errors.New("why"), Earlier: core.ID{2},
			Until: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		})
		require.JSONEq(t, `{"level":"WARN","msg":"idem: failed","operation":"01`+strings.Repeat("0", 62)+`","method":"POST",
			"route":"/pay","fence":2,"status":201,"code":"in_flight","count":3,"error":"why","earlier":"02`+strings.Repeat("0", 62)+`",
			"until":"2030-01-02T03:04:05Z"}`, buf.String())

		buf.Reset()
		core.LogObserver(logInto(&buf, slog.LevelDebug)).Observe(t.Context(), core.Event{
			Kind: core.EventSettled, Operation: core.ID{1}, Who: "olga", Why: "Mrs Doe called", Outcome: "applied", Digest: "ab",
		})
		require.JSONEq(t, `{"level":"INFO","msg":"idem: settled","operation":"01`+strings.Repeat("0", 62)+`","who":"olga",
			"outcome":"applied","digest":"ab"}`, buf.String(), "not the reason")
		buf.Reset()
		core.LogObserver(logInto(&buf, slog.LevelDebug)).Observe(t.Context(), core.Event{
			Kind: core.EventErased, Scope: store.Scope{1}, Who: "olga", Why: "ticket 7",
		})
		require.Contains(t, buf.String(), `"why":"ticket 7"`)
	})
}

// ofDatabase is an error of a database, whose text has a value of the request.
type ofDatabase struct{}

func (ofDatabase) Error() string    { return `invalid input syntax for type integer: "4111 1111"` }
func (ofDatabase) SQLState() string { return "22P02" }

// A whole life of keys: nothing of what the client has sent, and nothing of the answers, is in a log, in an event, or in
// a problem.
//
// CONTRACT K-6, P-1
func TestNothingSecretIsToldOf(t *testing.T) {
	const key, token, body, answer = "secret-key", "secret-token", `{"card":"secret-body"}`, "secret-answer"
	synctest.Test(t, func(t *testing.T) {
		var told, problems bytes.Buffer
		st := newFaultStore(memstore.New())
		logged := core.LogObserver(logInto(&told, slog.LevelDebug))
		a := &app{t: t, pattern: pattern}
		module := newModule(t, core.Config{
			Store: st, OperatorRoles: []core.IssuerRole{{Issuer: alice.Issuer, Role: "operator"}},
			Policy: core.Policy{Recovery: core.Park, MaxBody: 100, MaxAnswer: 100, Lease: 3 * time.Second, Deadline: 6 * time.Second,
				Review: func(_ context.Context, p core.Principal, _ core.Record) error {
					if p.HasAnyRole("locked") {
						return errors.New(answer)
					}
					return nil
				}},
			Reconcile: func(_ context.Context, r core.Record) (*core.Decision, error) {
				return &core.Decision{Applied: true, Who: "reconciler", Why: "seen", Answer: &core.Answer{Status: 200, Body: []byte(answer)}}, nil
			},
			Observer: core.ObserverFunc(func(ctx context.Context, e core.Event) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.events = append(a.events, e)
				fmt.Fprintf(&told, "%+v\n", e)
				logged.Observe(ctx, e)
			}),
		})
		a.module = module
		send := func(suffix, body string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
			w := a.post(key+suffix, body, append(edits, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })...)
			if strings.HasPrefix(w.Header().Get("Content-Type"), "application/problem") {
				fmt.Fprintln(&problems, w.Body)
				w.Header().Del("Idempotency-Key") // the echo is for who has sent it
				fmt.Fprintln(&problems, w.Header())
			}
			return w
		}
		locked := func(r *http.Request) { r.Header.Set("X-Locked", "1") }
		answers := func(code int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/"+answer)
				w.WriteHeader(code)
				_, _ = w.Write([]byte(answer))
			}
		}

		a.handler = answers(201)
		require.Equal(t, 201, send("", body).Code)
		require.Equal(t, answer, send("", body).Body.String())
		require.Equal(t, 409, send("", body+" ", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }).Code)
		require.Equal(t, 400, send(" ,", body).Code)
		require.Equal(t, 400, send("\x01", body).Code)
		require.Equal(t, 400, send(strings.Repeat("x", 300), body).Code)
		require.Equal(t, 400, send("", body, func(r *http.Request) { r.Header.Set("Idempotency-Key", `"`+key+`";p=1`) }).Code)
		require.Equal(t, 400, send("", body, func(r *http.Request) { r.URL.RawQuery = "idempotency-key=" + key }).Code)
		require.Equal(t, 413, send("-2", body+strings.Repeat(" ", 100)).Code)
		require.Equal(t, 401, a.postAs(core.Principal{}, key, body).Code)
		require.Equal(t, 403, a.postAs(core.Principal{Issuer: alice.Issuer, Subject: alice.Subject, Roles: []string{"locked"}}, key, body, locked).Code)
		st.on("claim", away)
		require.Equal(t, 503, send("-3", body).Code)
		st.on("claim", nil)
		st.on("after complete", away)
		require.Equal(t, 503, send("-4", body).Code)
		st.on("after complete", nil)
		a.handler = func(w http.ResponseWriter, r *http.Request) { core.NotApplied(r.Context()); answers(402)(w, r) }
		require.Equal(t, 402, send("-5", body).Code)
		a.handler = func(w http.ResponseWriter, r *http.Request) { core.NotApplied(r.Context()); answers(200)(w, r) }
		require.Equal(t, 200, send("-6", body).Code)
		a.handler = large(201)
		require.Equal(t, 201, send("-7", body).Code)
		require.Equal(t, 409, send("-7", body).Code)
		a.handler = answers(502)
		require.Equal(t, 502, send("-8", body).Code)
		require.Equal(t, 409, send("-8", body).Code)
		st.on("renew", away)
		a.handler = func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, 409, send("-9", body).Code)
			<-r.Context().Done()
			time.Sleep(10 * time.Second)
			a.settle(key+"-9", &core.Answer{Status: 200, Body: []byte(answer)})
			answers(201)(w, r)
		}
		require.Equal(t, 200, send("-9", body).Code)
		st.on("renew", nil)
		a.start()()
		time.Sleep(store.DefaultRetention)
		require.Equal(t, 409, send("", body).Code)
		a.start()()

		for _, kind := range []core.EventKind{core.EventClaimed, core.EventCompleted, core.EventFreed, core.EventReplayed, core.EventRefused,
			core.EventSettled, core.EventSwept, core.EventLeaseLost, core.EventUnknown, core.EventStale, core.EventUnconfirmed,
			core.EventNotAppliedRefused, core.EventFailed} {
			require.Contains(t, a.kinds(), kind, "the scenario is not whole")
		}
		for _, secret := range []string{"secret", "\x01", alice.Subject, alice.Issuer} {
			require.NotContains(t, told.String(), secret)
			require.NotContains(t, problems.String(), secret)
		}
		require.Contains(t, told.String(), core.Scoping{}.RecordID(alice, key).String())
		require.NotEmpty(t, problems.String())
	})
}

func TestEvents(t *testing.T) {
	t.Run("an event says which attempt of which command it is about", func(t *testing.T) {
		a := newApp(t, core.Config{}, created)
		a.post("k-1", `{}`)
		a.post("k-1", `{}`)
		a.post("k-1", `{"another":1}`)
		a.post("", `{}`)
		about := core.Event{Operation: core.Scoping{}.RecordID(alice, "k-1"), Method: "POST", Route: pattern, Recovery: core.Park}
		attempt := about
		attempt.Fence = 1
		want := []core.Event{attempt, attempt, attempt, about, {Method: "POST", Route: pattern, Recovery: core.Park}}
		want[0].Kind = core.EventClaimed
		want[1].Kind, want[1].Status = core.EventCompleted, 201
		want[2].Kind, want[2].Status = core.EventReplayed, 201
		want[3].Kind, want[3].Code = core.EventRefused, core.CodeKeyReused
		want[4].Kind, want[4].Code = core.EventRefused, core.CodeKeyMissing
		for i := range a.events {
			e := &a.events[i]
			e.Claim, e.Waiting, e.Attempt, e.Recording = 0, 0, 0, 0
		}
		require.Equal(t, want, a.events)
	})
	t.Run("the context of an event is that of its request, for traces", func(t *testing.T) {
		var seen []any
		module, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park},
			Observer: core.ObserverFunc(func(ctx context.Context, _ core.Event) { seen = append(seen, ctx.Value(reviewKey{})) })})
		require.NoError(t, err)
		a := &app{t: t, module: module, handler: created, pattern: pattern}
		for _, key := range []string{"k-1", "k-1", ""} {
			a.post(key, `{}`, withContext(context.WithValue(t.Context(), reviewKey{}, "trace")))
		}
		require.Equal(t, []any{"trace", "trace", "trace", "trace"}, seen)
	})
	t.Run("problems are JSON also where their detail quotes something", func(t *testing.T) {
		a := newApp(t, core.Config{Header: "X-Key"}, created)
		for _, key := range []string{"", `"`, "a b", `a,"b`, "\xff"} {
			w := a.post("", `{}`, func(r *http.Request) { r.Header.Set("X-Key", key) })
			require.Equal(t, http.StatusBadRequest, w.Code)
			require.True(t, json.Valid(w.Body.Bytes()))
		}
	})
}

// CONTRACT O-7, X-11, S-4
func TestReasonsInTheLog(t *testing.T) {
	t.Run("every kind that the comment on the kinds says deserves attention is a warning, and no other is", func(t *testing.T) {
		file, err := parser.ParseFile(token.NewFileSet(), "observer.go", nil, 0)
		require.NoError(t, err)
		attention, seen := false, 0
		for node := range ast.Preorder(file) {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				continue
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Event") {
				continue
			}
			kind, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			attention = attention || core.EventKind(kind) == core.EventLeaseLost
			var log strings.Builder
			core.LogObserver(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))).
				Observe(t.Context(), core.Event{Kind: core.EventKind(kind), Count: 1})
			require.Equal(t, attention, log.Len() > 0, kind)
			require.Equal(t, attention, core.EventKind(kind).IsWarning(), kind)
			seen++
		}
		require.Greater(t, seen, 20)
	})
	t.Run("the log says why a caller was refused; the caller hears only 401", func(t *testing.T) {
		strict := core.Scoping{RequireTenant: true, RequireClient: true}
		a := newApp(t, core.Config{Scoping: strict}, created)
		member := core.Principal{Issuer: "i", Tenant: "t", Subject: "s"}
		var log strings.Builder
		observer := core.LogObserver(slog.New(slog.NewTextHandler(&log, nil)))
		for _, refused := range []struct {
			p    core.Principal
			want string
		}{{core.Principal{}, "no principal"}, {alice, "no tenant"}, {member, "no client"}} {
			for _, refuse := range []func() *httptest.ResponseRecorder{
				func() *httptest.ResponseRecorder { return a.postAs(refused.p, "k-1", `{}`) },
				func() *httptest.ResponseRecorder { return a.operation(refused.p, idOf("k-1")) },
				func() *httptest.ResponseRecorder { return a.operations(refused.p, "") },
				func() *httptest.ResponseRecorder { return a.ownOperation(refused.p, "k-1", "/") },
				func() *httptest.ResponseRecorder { return a.serveSettle(refused.p, idOf("k-1"), `{}`) },
			} {
				a.events = nil
				log.Reset()
				w := refuse()
				requireProblem(t, w, http.StatusUnauthorized, core.CodeUnauthenticated)
				require.NotContains(t, w.Body.String(), refused.want)
				require.Len(t, a.events, 1)
				require.ErrorContains(t, a.events[0].Err, refused.want)
				observer.Observe(t.Context(), a.events[0])
				require.Contains(t, log.String(), refused.want)
			}
		}
	})
}

// times are the durations of an event.
type times struct {
	kind                               core.EventKind
	claim, waiting, attempt, recording time.Duration
}

func timesOf(events []core.Event) (all []times) {
	for _, e := range events {
		all = append(all, times{e.Kind, e.Claim, e.Waiting, e.Attempt, e.Recording})
	}
	return all
}

// slowStore takes two seconds to claim, and one to record an end.
func slowStore() *faultStore {
	store := newFaultStore(memstore.New())
	for call, takes := range map[string]time.Duration{"claim": 2, "complete": 1, "park": 1, "release": 1} {
		store.on(call, func(context.Context) error { time.Sleep(takes * time.Second); return nil })
	}
	return store
}

const second = time.Second

// Events say how long claim and attempt took, each of them once.
func TestEventsSayHowLong(t *testing.T) {
	works := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * second)
			if code == http.StatusTeapot {
				core.NotApplied(r.Context())
			}
			w.WriteHeader(code)
		}
	}
	claimed := times{kind: core.EventClaimed, claim: 2 * second}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    []times
	}{
		"created": {works(201), []times{claimed, {core.EventCompleted, 0, 0, 6 * second, second},
			{core.EventReplayed, 2 * second, 0, 0, 0}}},
		"freed":   {works(http.StatusTeapot), []times{claimed, {core.EventFreed, 0, 0, 6 * second, second}, claimed, {core.EventFreed, 0, 0, 6 * second, second}}},
		"unknown": {works(502), []times{claimed, {core.EventUnknown, 0, 0, 6 * second, second}, {core.EventRefused, 2 * second, 0, 0, 0}}},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newApp(t, core.Config{Store: slowStore(), ClaimTimeout: 10 * second}, test.handler)
			a.post("k-1", `{}`)
			a.post("k-1", `{}`)
			require.Equal(t, test.want, timesOf(a.events))
		})
	}
}

// A repeat that waits says how long it waited, and how long its claims took, without each other.
//
// CONTRACT M-2
func TestEventsSayHowLongARepeatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := newApp(t, core.Config{Store: slowStore(), ClaimTimeout: 10 * second,
			Policy: core.Policy{Recovery: core.Park, Wait: 10 * second}}, func(w http.ResponseWriter, r *http.Request) {
			<-release
			w.WriteHeader(http.StatusCreated)
		})
		go a.post("k-1", `{}`)
		synctest.Wait()
		time.Sleep(3 * second)
		begun := time.Now()
		go func() {
			time.Sleep(5 * second)
			close(release)
		}()
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get(wire.HeaderResult))
		took := time.Since(begun)
		for _, e := range a.events {
			if e.Kind == core.EventReplayed {
				require.Equal(t, took, e.Claim+e.Waiting)
				require.Positive(t, e.Waiting)
				require.Greater(t, e.Claim, 2*second, "the sum of several claims")
				require.Zero(t, e.Claim%(2*second))
			}
		}
		require.Contains(t, a.kinds(), core.EventReplayed)
	})
}

// Whatever a handler and a store do, one event says that the attempt has ended, and it says how long the attempt took.
func TestOneEventEndsAnAttempt(t *testing.T) {
	panics := func(http.ResponseWriter, *http.Request) { panic("a handler panics") }
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		failing string
		want    core.EventKind
	}{
		"recorded":           {created, "", core.EventCompleted},
		"a failure":          {status(502), "", core.EventUnknown},
		"a panic":            {panics, "", core.EventUnknown},
		"parking fails":      {status(502), "park", core.EventUnknown},
		"cannot be recorded": {created, "complete", core.EventUnconfirmed},
		"less than was announced": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			w.WriteHeader(200)
		}, "", core.EventUnknown},
	} {
		for _, recovery := range []core.Recovery{core.Park, core.Resume} {
			inBubble(t, name+" in "+recovery.String(), func(t *testing.T) {
				store := memstore.New()
				cfg := core.Config{Store: store, Policy: core.Policy{Recovery: recovery}}
				if recovery == core.Park {
					faults := newFaultStore(store).on(test.failing, away)
					cfg.Store = faults
				} else if test.failing != "" {
					t.Skip("the faults are those of Park")
				}
				a := newApp(t, cfg, sealed(test.handler))
				a.postRecovered("k-1", `{}`)
				ends := a.ends()
				for _, e := range a.events {
					require.Equal(t, e.Kind.EndsAttempt() && test.failing != "", e.Attempt > 0, e.Kind)
				}
				require.Len(t, ends, 1)
				if recovery == core.Resume && test.want == core.EventUnknown {
					test.want = core.EventYielded
				}
				require.Equal(t, test.want, ends[0].Kind)
				if name == "a panic" {
					require.Equal(t, http.StatusInternalServerError, ends[0].Status)
				}
			})
		}
	}
}

// What a stranger sends must not fill a log, whatever the observer is.
//
// CONTRACT O-7, P-1
func TestTextsOfEventsAreCapped(t *testing.T) {
	long := strings.Repeat("é", 100<<10)
	var told core.Event
	observer := core.Observers(core.ObserverFunc(func(_ context.Context, e core.Event) { told = e }))
	observer.Observe(t.Context(), core.Event{
		Kind: core.EventFailed, Method: long, Route: long, Who: long, Why: long, Err: fmt.Errorf("%s: %w", long, core.ErrClock),
	})
	require.Equal(t, "_OTHER", told.Method)
	for _, text := range []string{told.Route, told.Who, told.Why, told.Err.Error()} {
		require.LessOrEqual(t, len(text), 4<<10+3)
		require.True(t, utf8.ValidString(text))
		require.Equal(t, "éé...", text[:4]+text[len(text)-3:])
	}
	require.ErrorIs(t, told.Err, core.ErrClock)
	for _, method := range []string{"", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "QUERY"} {
		observer.Observe(t.Context(), core.Event{Method: method, Err: core.ErrClock})
		require.Equal(t, method, told.Method)
		require.Equal(t, core.ErrClock, told.Err)
	}
}
