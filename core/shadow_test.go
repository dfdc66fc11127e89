package core_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/adapter"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// inShadow is a policy in shadow for a day.
func inShadow() core.Policy {
	return core.Policy{Recovery: core.Park, ShadowUntil: time.Now().Add(24 * time.Hour)}
}

// told are the events, without those that the test has seen before.
func (a *app) told() []core.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	told := a.events
	a.events = nil
	return told
}

// requireTold checks the events since the last time, by kind and code.
func (a *app) requireTold(t *testing.T, want ...string) []core.Event {
	t.Helper()
	events := a.told()
	got := make([]string, len(events))
	for i, e := range events {
		got[i] = strings.TrimSuffix(string(e.Kind)+" "+string(e.Code), " ")
		require.Equal(t, http.MethodPost, e.Method)
		require.Equal(t, pattern, e.Route)
	}
	require.Equal(t, want, got)
	return events
}

// In shadow every request passes, and the observer is told what would have become of it.
func TestShadow(t *testing.T) {
	st := memstore.New()
	seen := 0
	a := newApp(t, core.Config{Store: st, Policy: inShadow()}, func(w http.ResponseWriter, r *http.Request) {
		seen++
		require.True(t, core.InShadow(r.Context()))
		_, inside := core.Operation(r.Context())
		require.False(t, inside, "the handler runs outside any attempt")
		created(w, r)
	})
	inURL := func(r *http.Request) { r.URL.RawQuery = "idempotency_key=5" }
	for _, test := range []struct {
		name, key, body string
		edits           []func(*http.Request)
		told            []string
		earlier         string // the key that the last event names
	}{
		{"a new key", "key-1", `{"amount":1}`, nil, []string{"would_claim"}, ""},
		{"a repeat", "key-1", `{ "amount": 1 }`, nil, []string{"would_replay"}, ""},
		{"the key with another command", "key-1", `{"amount":2}`, nil, []string{"would_refuse key_reused"}, ""},
		{"a missing key", "", `{"amount":3}`, nil, []string{"would_refuse key_missing"}, ""},
		{"an invalid key", "a, b", `{"amount":4}`, nil, []string{"would_refuse key_invalid"}, ""},
		{"a key in the URL", "key-5", `{"amount":5}`, []func(*http.Request){inURL}, []string{"would_refuse key_in_url"}, ""},
		{"the same command without a key", "", `{"amount":3}`, nil, []string{"would_refuse key_missing", "suspected_duplicate"}, ""},
		{"the same command under a new key", "key-1b", `{"amount":1}`, nil, []string{"would_claim", "suspected_duplicate"}, "key-1"},
		{"and not suspected again", "key-1b", `{"amount":1}`, nil, []string{"would_replay"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := seen
			w := a.post(test.key, test.body, test.edits...)
			require.Equal(t, http.StatusCreated, w.Code)
			require.Equal(t, before+1, seen)
			require.Empty(t, w.Header().Get(wire.HeaderResult))
			require.Empty(t, w.Header().Get("Idempotency-Key"))
			told := a.requireTold(t, test.told...)
			last := told[len(told)-1]
			if strings.HasPrefix(test.key, "key-1") {
				require.Equal(t, core.Scoping{}.RecordID(alice, test.key), last.Operation)
			} else {
				require.Zero(t, last.Operation)
			}
			if told[0].Kind == core.EventWouldClaim {
				require.Equal(t, core.Park, told[0].Recovery)
			}
			var earlier core.ID
			if test.earlier != "" {
				earlier = core.Scoping{}.RecordID(alice, test.earlier)
			}
			require.Equal(t, earlier, last.Earlier)
		})
	}
	// CONTRACT S-1
	t.Run("another principal", func(t *testing.T) {
		w := a.postAs(core.Principal{Issuer: alice.Issuer, Subject: "bob"}, "key-1", `{"amount":1}`)
		require.Equal(t, http.StatusCreated, w.Code)
		a.requireTold(t, "would_claim")
	})

	records, err := st.List(t.Context(), store.Query{Unknown: true, Limit: 100})
	require.NoError(t, err)
	require.Empty(t, records)
	_, err = st.Find(t.Context(), core.Scoping{}.RecordID(alice, "key-1"), store.Viewer{All: true})
	require.ErrorIs(t, err, core.ErrNotFound, "nothing is claimed")
}

// CONTRACT O-1, O-2, O-3, K-1, M-3
func TestShadowAndItsEnd(t *testing.T) {
	t.Run("shadow knows its callers", func(t *testing.T) {
		policy := inShadow()
		policy.Roles = []string{"customer"}
		a := newApp(t, core.Config{Routes: core.Routes{"POST " + pattern: policy}}, created)
		requireProblem(t, a.postAs(core.Principal{}, "key-1", ""), http.StatusUnauthorized, core.CodeUnauthenticated)
		requireProblem(t, a.postAs(core.Principal{Issuer: "i", Subject: "s"}, "key-1", ""), http.StatusForbidden, core.CodeForbidden)
	})
	inBubble(t, "shadow outlives its store", func(t *testing.T) {
		store := newFaultyWatcher(memstore.New())
		a := newApp(t, core.Config{Store: store, Policy: inShadow()}, created)
		away := errors.New("away")
		store.on("logCommand", func(context.Context) error { return away })
		require.Equal(t, http.StatusCreated, a.post("key-1", "").Code)
		require.ErrorIs(t, a.requireTold(t, "failed")[0].Err, away)

		time.Sleep(time.Minute) // an outage is told once a second
		store.on("logCommand", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		start := time.Now()
		require.Equal(t, http.StatusCreated, a.post("key-1", "").Code)
		require.ErrorIs(t, a.requireTold(t, "failed")[0].Err, context.DeadlineExceeded)
		require.Equal(t, 250*time.Millisecond, time.Since(start), "a watch costs no more")
	})
	inBubble(t, "at its end the key is enforced, without a new module", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: inShadow()}, created)
		time.Sleep(24*time.Hour - time.Nanosecond)
		require.Len(t, a.module.Shadowed(), 1)
		require.Equal(t, http.StatusCreated, a.post("", "").Code)
		time.Sleep(time.Nanosecond)
		require.Empty(t, a.module.Shadowed())
		requireProblem(t, a.post("", ""), http.StatusBadRequest, core.CodeKeyMissing)
		require.Equal(t, wire.ResultCreated, a.post("key-1", "").Header().Get(wire.HeaderResult))
		require.Equal(t, wire.ResultReused, a.post("key-1", "").Header().Get(wire.HeaderResult))
	})
	// A request that began in shadow stays there: no guard claims a key that the one before has not checked.
	inBubble(t, "shadow ends between guards", func(t *testing.T) {
		store := newFaultyWatcher(memstore.New())
		a := newApp(t, core.Config{Store: store, Policy: inShadow()}, created)
		require.Equal(t, http.StatusCreated, a.post("", "", func(r *http.Request) {
			r.Body = io.NopCloser(slowBody{24 * time.Hour})
			r.ContentLength = -1
		}).Code)
		a.requireTold(t, "would_refuse key_missing")
		require.Empty(t, a.module.Shadowed())
	})
	t.Run("shadow mounted wrongly", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: inShadow()}, created)
		a.handler = func(w http.ResponseWriter, r *http.Request) { // through the guards once more
			a.handler = created
			a.serve(w, r, alice)
		}
		require.Equal(t, http.StatusCreated, a.post("key-1", "").Code)
		a.requireTold(t, "would_claim", "would_refuse misconfigured", "would_refuse misconfigured")

		r := httptest.NewRequest(http.MethodPost, pattern, nil)
		attempt, reply := a.module.Begin(r, pattern, alice) // without a key guard
		require.Nil(t, attempt)
		require.Nil(t, reply)
		a.requireTold(t, "would_refuse misconfigured")
		_, reply = a.module.Begin(r, pattern, core.Principal{})
		require.Equal(t, http.StatusUnauthorized, reply.Status)
	})
}

// CONTRACT H-5
func TestShadowLeavesBodiesAlone(t *testing.T) {
	policy := inShadow()
	policy.MaxBody = 10
	var got string
	var readErr error
	a := newApp(t, core.Config{Policy: policy}, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got, readErr = string(body), errors.Join(err, r.Body.Close())
	})
	for name, test := range map[string]struct {
		body io.Reader
		want string
		err  error
		told string
	}{
		"whole":               {strings.NewReader("0123456789"), "0123456789", nil, "would_claim"},
		"none":                {strings.NewReader(""), "", nil, "would_claim"},
		"read before":         {http.NoBody, "", nil, "would_refuse misconfigured"},
		"announced too large": {strings.NewReader("0123456789-"), "0123456789-", nil, "would_refuse body_too_large"},
		"found too large": {io.MultiReader(strings.NewReader("0123456789"), strings.NewReader(strings.Repeat("-", 5000))),
			"0123456789" + strings.Repeat("-", 5000), nil, "would_refuse body_too_large"},
		"breaking off": {io.MultiReader(strings.NewReader("01234"), failing{}), "01234", io.ErrUnexpectedEOF,
			"would_refuse body_unreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := a.post("key "+name, "", func(r *http.Request) {
				r.Header.Set("Idempotency-Key", strings.ReplaceAll(name, " ", "-"))
				r.Body, r.ContentLength = io.NopCloser(test.body), -1
				if l, ok := test.body.(interface{ Len() int }); ok {
					r.ContentLength = int64(l.Len())
				}
			})
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, test.want, got)
			require.ErrorIs(t, readErr, test.err)
			a.requireTold(t, test.told)
		})
	}
}

// CONTRACT H-5, D-2
func TestShadowBesideOtherRules(t *testing.T) {
	// The guard has read such a body to its end, and would refuse it all the same. In shadow the handler still gets it.
	t.Run("shadow leaves whole bodies alone", func(t *testing.T) {
		module := newModule(t, core.Config{Store: memstore.New(), Policy: inShadow()})
		parts := strings.Repeat("--b\r\n\r\n\r\n", 1001) + "--b--\r\n"
		for name, kept := range map[string]string{"too many parts": parts, "another copy": "amount=10"} {
			r := newCommand("k-1", parts)
			r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
			admitted, reply := module.Admit(r, pattern, alice, []byte(kept))
			require.Nil(t, reply, name)
			body, err := io.ReadAll(admitted.Body)
			require.NoError(t, err)
			require.Equal(t, parts, string(body), name)
		}
	})
	t.Run("audit tells of shadow", func(t *testing.T) {
		until := time.Now().Add(time.Hour)
		var told []core.Event
		idem := newModule(t, core.Config{
			Store: memstore.New(),
			Routes: core.Routes{
				"POST /pay":    {Recovery: core.Park, ShadowUntil: until},
				"POST /refund": {Recovery: core.Park},
			},
			Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { told = append(told, e) }),
		})
		require.NoError(t, idem.AuditRoutes([]adapter.MountedRoute{
			{Method: "POST", Pattern: "/pay", Chain: behind(money...)}, {Method: "POST", Pattern: "/refund", Chain: behind(money...)},
		}))
		require.Equal(t, []core.Event{{Kind: core.EventShadowed, Method: "POST", Route: "/pay", Recovery: core.Park, Until: until}},
			told)
		require.ErrorContains(t, idem.AuditRoutes([]adapter.MountedRoute{
			{Method: "POST", Pattern: "/pay"}, {Method: "POST", Pattern: "/refund", Chain: behind(money...)},
		}), "POST /pay: is not behind", "a route in shadow needs its guards as any other")

		shadowed := idem.Shadowed()
		require.Len(t, shadowed, 1)
		require.Equal(t, "/pay", shadowed[0].Pattern)
	})
}

// failing is a body that broke off.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// faultyWatcher is a Watcher whose calls a test can hold up or break.
type faultyWatcher struct {
	*faultStore
	watcher store.CommandLog
}

func newFaultyWatcher(s *memstore.Store) *faultyWatcher {
	return &faultyWatcher{faultStore: newFaultStore(s), watcher: s}
}

func (s *faultyWatcher) LogCommand(ctx context.Context, seen store.LoggedCommand) (store.EarlierCommands, error) {
	return through(ctx, s.faultStore, "logCommand", func() (store.EarlierCommands, error) { return s.watcher.LogCommand(ctx, seen) })
}

// slowBody takes its time to say that it is empty.
type slowBody struct{ takes time.Duration }

func (b slowBody) Read([]byte) (int, error) {
	time.Sleep(b.takes)
	return 0, io.EOF
}

const order = `{"amount":1}`

var refusing = core.Policy{Recovery: core.Park, RefuseRekeyed: true}

// CONTRACT M-3, M-1, R-6, F-1
func TestRekey(t *testing.T) {
	t.Run("rekey off", func(t *testing.T) {
		store := newFaultyWatcher(memstore.New())
		store.on("logCommand", func(context.Context) error { panic("nobody asked for it") })
		a := newApp(t, core.Config{Store: store}, created)
		requireCreated(t, a.post("key-1", order), wire.ResultCreated)
		requireCreated(t, a.post("key-2", order), wire.ResultCreated)
		require.Equal(t, 2, a.ran())
	})
	inBubble(t, "a late repeat is no other key", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: refusing}, created)
		for _, key := range []string{"key-1", "key-2"} {
			requireCreated(t, a.post(key, order), wire.ResultCreated)
			time.Sleep(core.DefaultRekeyWindow)
		}
		requireCreated(t, a.post("key-2", order), wire.ResultReused)
		requireCreated(t, a.post("key-1", order), wire.ResultReused)
		require.Empty(t, a.of(core.EventSuspectedDuplicate))
	})
	inBubble(t, "rekey refuse", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: refusing}, created)
		requireCreated(t, a.post("key-1", order), wire.ResultCreated)
		for range 2 { // a repeat of what was refused is refused again
			time.Sleep(time.Minute)
			w := a.post("key-2", order)
			requireProblem(t, w, http.StatusConflict, core.CodeSuspectedDuplicate)
			require.Contains(t, w.Body.String(), `"operation":"`+core.Scoping{}.RecordID(alice, "key-1").String()+`"`)
			require.Empty(t, w.Header().Get("Retry-After"))
			require.Equal(t, "key-2", w.Header().Get("Idempotency-Key"))
		}
		e := a.of(core.EventSuspectedDuplicate)[0]
		require.Equal(t, core.Scoping{}.RecordID(alice, "key-2"), e.Operation)
		require.Equal(t, core.Scoping{}.RecordID(alice, "key-1"), e.Earlier)
		require.Equal(t, 1, a.ran())
		requireCreated(t, a.postAs(core.Principal{Issuer: alice.Issuer, Subject: "bob"}, "key-1", order), wire.ResultCreated)
		requireCreated(t, a.post("key-1", order), wire.ResultReused)
		requireProblem(t, a.post("key-1", `{"amount":2}`), http.StatusConflict, core.CodeKeyReused)
		requireCreated(t, a.post("key-3", `{"amount":2}`), wire.ResultCreated) // another command

		// Nobody is refused for longer than the window, however often he comes.
		time.Sleep(core.DefaultRekeyWindow - 2*time.Minute)
		requireCreated(t, a.post("key-4", order), wire.ResultCreated)
		time.Sleep(time.Second)
		requireProblem(t, a.post("key-2", order), http.StatusConflict, core.CodeSuspectedDuplicate)
		requireCreated(t, a.post("key-4", order), wire.ResultReused)
	})
	t.Run("a key that is free again is no other key: the command that came to nothing may be repeated with it", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: refusing}, notApplied(status(http.StatusServiceUnavailable)))
		require.Equal(t, http.StatusServiceUnavailable, a.post("key-1", order).Code)
		a.handler = created
		requireCreated(t, a.post("key-1", order), wire.ResultCreated)
	})
	inBubble(t, "what ran on an instance that does not refuse yet is replayed", func(t *testing.T) {
		store := memstore.New()
		refuses := newApp(t, core.Config{Store: store, Policy: refusing}, created)
		lets := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park}}, created)
		requireCreated(t, refuses.post("key-1", order), wire.ResultCreated)
		time.Sleep(time.Second)
		requireCreated(t, lets.post("key-2", order), wire.ResultCreated)
		requireCreated(t, refuses.post("key-2", order), wire.ResultReused)
		require.Empty(t, refuses.of(core.EventSuspectedDuplicate))
	})
	t.Run("rekey without store", func(t *testing.T) {
		away := errors.New("away")
		store := newFaultyWatcher(memstore.New())
		store.on("logCommand", func(context.Context) error { return away })
		a := newApp(t, core.Config{Store: store, Policy: refusing}, created)
		w := a.post("key-1", order)
		require.ErrorIs(t, a.told()[0].Err, away)
		requireProblem(t, w, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		require.Zero(t, a.ran())
	})
	t.Run("rekey configuration", func(t *testing.T) {
		idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{RefuseRekeyed: true, RekeyWindow: time.Hour},
			Routes: core.Routes{"POST /pay": {Recovery: core.Park}, "POST /quiet": {Recovery: core.Park, RekeyWindow: time.Minute}}})
		require.NoError(t, err)
		require.Equal(t, time.Hour, idem.Declared()[0].Policy.RekeyWindow)
		require.Equal(t, time.Minute, idem.Declared()[1].Policy.RekeyWindow)
		require.True(t, idem.Declared()[1].Policy.RefuseRekeyed)
	})
}
