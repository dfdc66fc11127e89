package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// alice is the caller unless a test says otherwise.
var alice = core.Principal{Issuer: "https://issuer.example", Subject: "alice", Roles: []string{"customer"}}

// app is an app over net/http alone: the smallest adapter there can be.
type app struct {
	t       *testing.T
	module  *core.Module
	handler http.HandlerFunc
	pattern string
	outer   func(h http.Header) // middleware around the guards

	mu     sync.Mutex
	events []core.Event
	runs   int
}

const pattern = "/v1/payments"

// resumes goes on with the operations of pattern.
func resumes(resume core.Resumer) map[string]core.Resumer {
	if resume == nil {
		return nil
	}
	return map[string]core.Resumer{"POST " + pattern: resume}
}

// inBubble runs a subtest in a bubble of testing/synctest: time passes there as soon as everybody waits.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// each runs a subtest for each of the cases, by its name.
func each[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

// eachInBubble does so in bubbles.
func eachInBubble[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	t.Helper()
	for name, c := range cases {
		inBubble(t, name, func(t *testing.T) { test(t, c) })
	}
}

// newApp mounts handler on POST /v1/payments. The config needs no more than a store and a policy.
func newApp(t *testing.T, cfg core.Config, handler http.HandlerFunc) *app {
	t.Helper()
	a := &app{t: t, handler: handler, pattern: pattern}
	if cfg.Store == nil {
		cfg.Store = memstore.New()
	}
	if cfg.Routes == nil && cfg.Policy.Recovery == 0 {
		cfg.Policy.Recovery = core.Park
	}
	cfg.Observer = core.ObserverFunc(func(_ context.Context, e core.Event) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.events = append(a.events, e)
	})
	module := newModule(t, cfg)
	a.module = module
	return a
}

// connected is a writer that can be broken off, as that of a server can.
type connected struct{ http.ResponseWriter }

func (c connected) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c connected) SetWriteDeadline(deadline time.Time) error {
	_ = http.NewResponseController(c.ResponseWriter).SetWriteDeadline(deadline) // a recorder has none
	return nil
}

// serve is what an adapter does.
func (a *app) serve(w http.ResponseWriter, r *http.Request, p core.Principal) {
	w = connected{w}
	if a.outer != nil {
		a.outer(w.Header())
	}
	if reply := a.module.CheckRoles(r, a.pattern, p); reply != nil {
		_ = reply.WriteTo(w)
		return
	}
	r, reply := a.module.Admit(r, a.pattern, p)
	if reply != nil {
		_ = reply.WriteTo(w)
		return
	}
	attempt, reply := a.module.Begin(r, a.pattern, p)
	switch {
	case reply != nil:
		_ = reply.WriteTo(w)
		return
	case attempt == nil:
		a.handler(w, r)
		return
	}
	capture := attempt.Capture(w)
	returned := false
	defer func() {
		if !returned {
			attempt.Panicked(w.Header())
		}
	}()
	a.mu.Lock()
	a.runs++
	a.mu.Unlock()
	a.handler(capture, attempt.Request())
	returned = true
	if reply := attempt.Finish(); reply != nil {
		_ = reply.WriteTo(w)
	}
}

// post sends a command with a key, changed by edits.
func (a *app) post(key, body string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	a.t.Helper()
	return a.postAs(alice, key, body, edits...)
}

func (a *app) postAs(p core.Principal, key, body string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	a.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/payments", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, edit := range edits {
		edit(r)
	}
	w := httptest.NewRecorder()
	a.serve(w, r, p)
	a.requirePublished(w)
	return w
}

// unpublished are the problems that no guard sends on a route of the table.
var unpublished = []core.Code{
	core.CodeRouteUndeclared,                                       // the route is not in the table
	core.CodeBadRequest, core.CodeNotFound, core.CodeNotSettleable, // the handlers of operations send them
}

// requirePublished requires of a problem that it is described, with its status (P-1).
func (a *app) requirePublished(w *httptest.ResponseRecorder) {
	a.t.Helper()
	var problem struct {
		Code   core.Code `json:"code"`
		Status int       `json:"status"`
	}
	if w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Idempotent-Replayed") != "" ||
		json.Unmarshal(w.Body.Bytes(), &problem) != nil || slices.Contains(unpublished, problem.Code) {
		return
	}
	for _, route := range a.module.Describe().Routes {
		for _, described := range route.Problems {
			if described.Code == problem.Code {
				require.Equal(a.t, described.Status, w.Code)
				return
			}
		}
	}
	require.Fail(a.t, "the problem is not described", problem.Code)
}

// postRecovered sends a command whose handler may panic, and recovers as a server does.
func (a *app) postRecovered(key, body string) *httptest.ResponseRecorder {
	a.t.Helper()
	defer func() { _ = recover() }()
	return a.post(key, body)
}

// newCommand is a command with a key. Without a body it has none at all.
func newCommand(key, body string) *http.Request {
	var content io.Reader = http.NoBody
	if body != "" {
		content = strings.NewReader(body)
	}
	r := httptest.NewRequest(http.MethodPost, pattern, content)
	r.Header.Set(wire.HeaderKey, key)
	return r
}

// newModule is a module whose configuration is right.
func newModule(t *testing.T, cfg core.Config) *core.Module {
	t.Helper()
	module, err := core.New(cfg)
	require.NoError(t, err)
	return module
}

// find reads the record of alice's key.
func find(t *testing.T, st core.Store, key string) core.Record {
	t.Helper()
	rec, err := st.Find(t.Context(), core.Scoping{}.RecordID(alice, key), store.Viewer{All: true})
	require.NoError(t, err)
	return rec
}

// ran is how often the handler ran.
func (a *app) ran() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs
}

// logged is what LogObserver writes of the last event, at level info.
func (a *app) logged() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var log strings.Builder
	core.LogObserver(slog.New(slog.NewTextHandler(&log, nil))).Observe(context.Background(), a.events[len(a.events)-1])
	return log.String()
}

// kinds lists the events so far.
func (a *app) kinds() []core.EventKind {
	a.mu.Lock()
	defer a.mu.Unlock()
	kinds := make([]core.EventKind, len(a.events))
	for i, e := range a.events {
		kinds[i] = e.Kind
	}
	return kinds
}

// list is a list that goroutines of a test share.
type list[T any] struct {
	mu    sync.Mutex
	items []T
}

func (l *list[T]) add(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, item)
}

// all returns what was added so far.
func (l *list[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.items)
}

// requireProblem checks that an answer is the problem of a code.
func requireProblem(t *testing.T, w *httptest.ResponseRecorder, status int, code core.Code) {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body)
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	require.Contains(t, w.Body.String(), `"code":"`+string(code)+`"`)
}

// requireCreated checks that an answer is a 201 that was made or repeated.
func requireCreated(t *testing.T, w *httptest.ResponseRecorder, result string) {
	t.Helper()
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	require.Equal(t, result, w.Header().Get(wire.HeaderResult))
}

// created answers 201 with a body.
func created(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/v1/payments/1")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte(`{"id":1}`))
}

// status answers with a status alone.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// notApplied declares that nothing was applied, whatever next answers.
func notApplied(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { core.NotApplied(r.Context()); next(w, r) }
}

var errAway = errors.New("the store is away")

// away is the hook of a store that is away.
func away(context.Context) error { return errAway }

// faultStore is a store whose calls a test can hold up or break. A hook that returns an error takes the call's place.
type faultStore struct {
	store.Operations
	mu    sync.Mutex
	hooks map[string]func(ctx context.Context) error
}

func newFaultStore(s store.Operations) *faultStore {
	return &faultStore{Operations: s, hooks: map[string]func(context.Context) error{}}
}

// on sets the hook that runs before a call; nil takes it away.
func (s *faultStore) on(call string, hook func(ctx context.Context) error) *faultStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks[call] = hook
	return s
}

// count counts a call.
func (s *faultStore) count(call string) *int {
	n := new(int)
	s.on(call, func(context.Context) error { *n++; return nil })
	return n
}

// failFirst fails the first tries of a call, and counts all.
func (s *faultStore) failFirst(call string, tries int) *int {
	n := new(int)
	s.on(call, func(context.Context) error {
		if *n++; *n <= tries {
			return errAway
		}
		return nil
	})
	return n
}

func (s *faultStore) before(ctx context.Context, call string) error {
	s.mu.Lock()
	hook := s.hooks[call]
	s.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx)
}

// after runs the hook called "after ..." once a call has taken effect.
func (s *faultStore) after(ctx context.Context, call string, err error) error {
	if err != nil {
		return err
	}
	return s.before(ctx, "after "+call)
}

// through makes a call between its hooks.
func through[T any](ctx context.Context, s *faultStore, call string, do func() (T, error)) (T, error) {
	var none T
	if err := s.before(ctx, call); err != nil {
		return none, err
	}
	result, err := do()
	if err := s.after(ctx, call, err); err != nil {
		return none, err
	}
	return result, nil
}

func (s *faultStore) end(ctx context.Context, call string, do func() error) error {
	_, err := through(ctx, s, call, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

func (s *faultStore) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	return through(ctx, s, "claim", func() (store.Claimed, error) { return s.Operations.Claim(ctx, c) })
}

func (s *faultStore) Find(ctx context.Context, id core.ID, v store.Viewer) (core.Record, error) {
	return through(ctx, s, "find", func() (core.Record, error) { return s.Operations.Find(ctx, id, v) })
}

func (s *faultStore) Renew(ctx context.Context, t store.Ticket, lease time.Duration) error {
	return s.end(ctx, "renew", func() error { return s.Operations.Renew(ctx, t, lease) })
}

// End calls the hooks "complete", "park" and "release", and "renew" where the lease ends.
func (s *faultStore) End(ctx context.Context, t store.Ticket, e store.Ending) error {
	call := map[store.State]string{store.Completed: "complete", store.Unknown: "park", store.Free: "release",
		store.Running: "renew"}[e.State]
	return s.end(ctx, call, func() error { return s.Operations.End(ctx, t, e) })
}

func (s *faultStore) Release(ctx context.Context, lost []store.Ticket) error {
	return s.end(ctx, "release", func() error { return s.Operations.Release(ctx, lost) })
}

func (s *faultStore) Sweep(ctx context.Context, limit int, window store.Window) (store.Swept, error) {
	if err := s.before(ctx, "sweep"); err != nil {
		return store.Swept{}, err
	}
	return s.Operations.Sweep(ctx, limit, window)
}
