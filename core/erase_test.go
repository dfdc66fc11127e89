package core_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
	"github.com/stretchr/testify/require"
)

var orderToErase = operations.Erasure{Principal: alice, Who: "olga", Why: "request 7 of the data protection office"}

// A repeat of an erased command gets what it would get after the end of retention. It never runs again.
//
// CONTRACT M-1, M-5, M-7, S-1
func TestErasedCommandNeverRunsAgain(t *testing.T) {
	a := newRowsApp(t, core.Config{Policy: core.Policy{Recovery: core.Park}}, created)
	bob := alice
	bob.Subject = "bob"
	require.Equal(t, http.StatusCreated, a.post("k-1", `{"amount":1}`).Code)
	require.Equal(t, http.StatusCreated, a.postAs(bob, "k-1", `{"amount":1}`).Code)

	config := core.Config{Store: a.store, Policy: core.Policy{Recovery: core.Park}}
	_, err := operations.New(newModule(t, config)).Erase(t.Context(), orderToErase)
	require.ErrorContains(t, err, "Config.Observer is required")
	config.Observer = core.LogObserver(slog.New(slog.DiscardHandler))
	erased, err := operations.New(newModule(t, config)).Erase(t.Context(), orderToErase)
	require.NoError(t, err)
	require.Equal(t, operations.Erased{Records: 1}, erased)

	w := a.post("k-1", `{"amount":1}`)
	requireProblem(t, w, http.StatusConflict, core.CodeKeyExpired)
	require.Contains(t, w.Body.String(), `"outcome":"succeeded"`)
	require.Contains(t, w.Body.String(), `"operation":"`+idOf("k-1")+`"`)
	requireProblem(t, a.post("k-1", `{"amount":2}`), http.StatusConflict, core.CodeKeyReused)
	view := members(t, a.operation(alice, idOf("k-1")))
	require.Equal(t, "expired", view["state"])
	require.Equal(t, "succeeded", view["outcome"])
	require.NotContains(t, view, "answer")

	again := a.postAs(bob, "k-1", `{"amount":1}`)
	require.Equal(t, http.StatusCreated, again.Code)
	require.JSONEq(t, `{"id":1}`, again.Body.String())
	require.Equal(t, 2, a.ran())
}

// erasing is a memstore whose erasures come in three batches, and that dies before one of them.
type erasing struct {
	*memstore.Store
	batches int
	dies    int
}

func (s *erasing) Erase(ctx context.Context, scope store.Scope, after core.ID, limit int) (store.ErasedPage, error) {
	if s.batches++; s.batches == s.dies {
		return store.ErasedPage{}, errors.New("the connection is gone")
	}
	if after == (core.ID{2}) {
		return s.Store.Erase(ctx, scope, core.ID{}, limit)
	}
	return store.ErasedPage{Records: 1, Next: core.ID{after[0] + 1}}, nil
}

// CONTRACT K-6
func TestErase(t *testing.T) {
	// What was erased before an error stays erased and is told; who asked, and why, is told before anything is erased.
	t.Run("erasure that is cut off", func(t *testing.T) {
		store := &erasing{Store: memstore.New(), dies: 3}
		a := newApp(t, core.Config{Store: store}, status(http.StatusBadGateway))
		require.Equal(t, http.StatusBadGateway, a.post("k-1", `{}`).Code) // unknown: it is left
		a.events = nil

		erased, err := operations.New(a.module).Erase(t.Context(), orderToErase)
		require.ErrorContains(t, err, "the connection is gone")
		require.Equal(t, operations.Erased{Records: 2}, erased)
		require.Equal(t, []core.EventKind{core.EventErasing, core.EventErased}, a.kinds())
		begun, ended := a.events[0], a.events[1]
		require.Equal(t, core.Event{Kind: core.EventErasing, Scope: core.Scoping{}.PrincipalScope(alice), Who: orderToErase.Who, Why: orderToErase.Why}, begun)
		require.ErrorContains(t, ended.Err, "the connection is gone")
		ended.Err = nil
		require.Equal(t, core.Event{Kind: core.EventErased, Scope: begun.Scope, Who: orderToErase.Who, Why: orderToErase.Why, Count: 2}, ended)

		erased, err = operations.New(a.module).Erase(t.Context(), orderToErase)
		require.NoError(t, err)
		require.Equal(t, 2, erased.Records)
		require.Equal(t, []core.ID{core.Scoping{}.RecordID(alice, "k-1")}, erased.Open)
		require.Equal(t, 1, a.events[len(a.events)-1].Open)
	})
	// The erasure comes while the handler is at work: its operation is named, and its answer is recorded afterwards.
	t.Run("erasure while an attempt runs", func(t *testing.T) {
		var a *app
		a = newApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
			erased, err := operations.New(a.module).Erase(r.Context(), orderToErase)
			require.NoError(t, err)
			require.Equal(t, operations.Erased{Open: []core.ID{core.Scoping{}.RecordID(alice, "k-1")}}, erased)
			created(w, r)
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		again := a.post("k-1", `{}`)
		require.Equal(t, wire.ResultReused, again.Header().Get(wire.HeaderResult))
		erased, err := operations.New(a.module).Erase(t.Context(), orderToErase)
		require.NoError(t, err)
		require.Equal(t, operations.Erased{Records: 1}, erased)
	})
	t.Run("erasure is refused", func(t *testing.T) {
		a := newApp(t, core.Config{Scoping: core.Scoping{RequireTenant: true}}, created)
		tenanted := alice
		tenanted.Tenant = "t-1"
		for name, e := range map[string]operations.Erasure{
			"Principal": {Who: "olga", Why: "asked"},
			"tenant":    {Principal: alice, Who: "olga", Why: "asked"},
			"Who":       {Principal: tenanted, Who: " ", Why: "asked"},
			"Why":       {Principal: tenanted, Who: "olga"},
		} {
			_, err := operations.New(a.module).Erase(t.Context(), e)
			require.ErrorContains(t, err, name)
		}
		require.Empty(t, a.kinds())

		// By another scope there would be nothing to erase, and nobody would notice.
		store := memstore.New()
		first := newApp(t, core.Config{Store: store}, created)
		require.Equal(t, http.StatusCreated, first.post("k-1", `{}`).Code)
		other := newApp(t, core.Config{Store: store, Scoping: core.Scoping{Namespace: "other"}}, created)
		_, err := operations.New(other.module).Erase(t.Context(), orderToErase)
		require.ErrorIs(t, err, core.ErrScoping)
	})
	t.Run("erasure is logged", func(t *testing.T) {
		var log bytes.Buffer
		observer := core.LogObserver(slog.New(slog.NewTextHandler(&log, nil)))
		module := newModule(t, core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}, Observer: observer})
		_, err := operations.New(module).Erase(t.Context(), orderToErase)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 2)
		for _, line := range lines {
			require.Contains(t, line, "level=INFO")
			require.Contains(t, line, "who=olga")
			require.Contains(t, line, `why="request 7 of the data protection office"`)
			require.NotContains(t, line, alice.Subject)
		}
	})
}

const eraseAlice = `{"principal":{"issuer":"https://issuer.example","subject":"alice"},"reason":"request 7"}`

func (a *app) serveErase(p core.Principal, body string) *httptest.ResponseRecorder {
	a.t.Helper()
	return written(a.t, operations.New(a.module).Serve(operations.Erase, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), p, ""))
}

// eraseApp is an app in which operators erase by commands of their own.
func eraseApp(t *testing.T, st core.Store, recovery core.Recovery) *app {
	t.Helper()
	routes := core.Routes{"POST " + pattern: {Recovery: recovery, Roles: []string{"operator"}}}
	a := newOpsApp(t, core.Config{Store: st, Routes: routes}, nil)
	a.handler = func(w http.ResponseWriter, r *http.Request) {
		_ = operations.New(a.module).Serve(operations.Erase, r, operator, "").WriteTo(w)
	}
	return a
}

// stateOf is the state of alice's k-1.
func stateOf(t *testing.T, st core.Store) store.State {
	t.Helper()
	rec := find(t, st, "k-1")
	return rec.State()
}

// CONTRACT S-5, X-4
func TestServeErase(t *testing.T) {
	// An operator erases principals of its own issuer and tenant, a supervisor those of all. What is refused erases nothing,
	// and tells the observer of no erasure.
	t.Run("who may erase", func(t *testing.T) {
		st := memstore.New()
		a := newOpsApp(t, core.Config{Store: st}, created)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		a.events = nil
		elsewhere, tenanted := operator, operator
		elsewhere.Issuer, tenanted.Tenant = "https://other.example", "t-1"

		requireProblem(t, a.serveErase(core.Principal{}, eraseAlice), http.StatusUnauthorized, core.CodeUnauthenticated)
		a.events = nil
		requireProblem(t, a.serveErase(alice, eraseAlice), http.StatusForbidden, core.CodeForbidden)
		requireProblem(t, a.serveErase(elsewhere, eraseAlice), http.StatusNotFound, core.CodeNotFound)
		requireProblem(t, a.serveErase(tenanted, eraseAlice), http.StatusNotFound, core.CodeNotFound)
		for name, body := range map[string]string{
			"no JSON": `x`, "misspelt": strings.Replace(eraseAlice, "subject", "sub", 1), "two values": eraseAlice + `{}`,
			"nobody": `{"principal":{"issuer":"i"},"reason":"r"}`, "no reason": strings.Replace(eraseAlice, "request 7", " ", 1),
			"NUL": strings.Replace(eraseAlice, "request", `\u0000`, 1), "no text": strings.Replace(eraseAlice, "request", "\xff", 1),
			"half a character": strings.Replace(eraseAlice, "alice", `\ud800`, 1),
			"twice":            strings.Replace(eraseAlice, `"subject"`, `"subject":"bob","subject"`, 1),
			"other case":       strings.Replace(eraseAlice, `"subject"`, `"subject":"bob","Subject"`, 1),
			"two principals":   strings.Replace(eraseAlice, `"reason"`, `"PRINCIPAL":{"subject":"bob"},"reason"`, 1),
			"a client":         strings.Replace(eraseAlice, `"subject"`, `"client":"web","subject"`, 1),
			"a long reason":    strings.Replace(eraseAlice, "request 7", strings.Repeat("x", 4097), 1),
		} {
			require.Equal(t, http.StatusBadRequest, a.serveErase(operator, body).Code, name)
		}
		require.Empty(t, a.events)
		require.Equal(t, store.Completed, stateOf(t, st))

		supervisor := elsewhere
		supervisor.Roles = []string{"supervisor"}
		w := a.serveErase(supervisor, eraseAlice)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.JSONEq(t, `{"records":1,"open":[]}`, w.Body.String(), "no route is on Rollback")
		require.Equal(t, store.Expired, stateOf(t, st))
		require.Equal(t, []core.EventKind{core.EventErasing, core.EventErased}, a.kinds())
		require.Equal(t, `issuer="https://other.example" subject="olga"`, a.events[0].Who)
		require.Equal(t, "request 7", a.events[0].Why)
	})
	t.Run("without an observer nobody would learn who has erased what", func(t *testing.T) {
		module := newModule(t, core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}, OperatorRoles: []core.IssuerRole{{Issuer: alice.Issuer, Role: "operator"}}})
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(eraseAlice))
		requireProblem(t, written(t, operations.New(module).Serve(operations.Erase, r, operator, "")), http.StatusInternalServerError, core.CodeMisconfigured)

		store := memstore.New()
		a := newOpsApp(t, core.Config{Store: store}, created)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		other := newOpsApp(t, core.Config{Store: store, Scoping: core.Scoping{Namespace: "other"}}, created)
		requireProblem(t, other.serveErase(operator, eraseAlice), http.StatusInternalServerError, core.CodeMisconfigured)
	})
	t.Run("only Resume continues an erasure that broke off", func(t *testing.T) {
		a := eraseApp(t, memstore.New(), core.Park)
		for range 2 { // the key is free
			requireProblem(t, a.postAs(operator, "e-1", eraseAlice), http.StatusInternalServerError, core.CodeMisconfigured)
		}
		require.Equal(t, 2, a.runs)
	})
	// The repeat of an erasure that broke off continues it, under the same key, behind what the attempt before has erased.
	t.Run("erasure is continued", func(t *testing.T) {
		store := &erasing{Store: memstore.New(), dies: 3}
		a := eraseApp(t, store, core.Resume)
		failing := a.postAs(operator, "e-1", eraseAlice)
		requireProblem(t, failing, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.NotEmpty(t, failing.Header().Get("Retry-After"))
		again := a.postAs(operator, "e-1", eraseAlice)
		require.Equal(t, http.StatusOK, again.Code, again.Body)
		require.JSONEq(t, `{"records":2,"open":[]}`, again.Body.String())
		replay := a.postAs(operator, "e-1", eraseAlice)
		require.Equal(t, wire.ResultReused, replay.Header().Get(wire.HeaderResult))
		require.Equal(t, again.Body.String(), replay.Body.String())
		require.Equal(t, 2, a.runs)
		require.Equal(t, 4, store.batches, "two, one that failed, and the third again")
	})
	// The open operations of an erasure are named, however many there are: none of its steps has too long a result.
	eachInBubble(t, map[string]int{
		"erasure names all that is open": 0, "erasure names all that is open, also behind large batches": 1100,
	}, func(t *testing.T, others int) {
		a := eraseApp(t, allOpen{memstore.New(), others, 3000}, core.Resume)
		w := a.postAs(operator, "e-1", eraseAlice)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var got struct {
			Open []core.ID `json:"open"`
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		require.Len(t, got.Open, 3000-others)
		require.True(t, slices.IsSortedFunc(got.Open, func(a, b core.ID) int { return bytes.Compare(a[:], b[:]) }))
	})
}

// allOpen is a store whose records are all open, and of the principal that is erased, but for the first ones.
type allOpen struct {
	*memstore.Store
	others, records int
}

func (s allOpen) Erase(_ context.Context, _ store.Scope, after core.ID, limit int) (page store.ErasedPage, err error) {
	for n := int(binary.BigEndian.Uint32(after[:])) + 1; n <= s.records; n++ {
		var id core.ID
		binary.BigEndian.PutUint32(id[:], uint32(n))
		if n > s.others {
			page.Open = append(page.Open, id)
		}
		if limit--; limit == 0 && n < s.records {
			page.Next = id
			break
		}
	}
	return page, nil
}

// Nobody sees a Rollback attempt that is under way. The answer says when the last of them has ended.
func TestErasureSaysWhenToEraseAgain(t *testing.T) {
	for name, cfg := range map[string]core.Config{
		"table": {Routes: core.Routes{
			"POST /v1/payments": {Recovery: core.Rollback, Deadline: 2 * time.Minute}, "POST /v1/orders": {Recovery: core.Rollback},
			"POST /v1/payouts": {Recovery: core.Park, Deadline: time.Hour},
		}},
		"no table": {Policy: core.Policy{Recovery: core.Rollback}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Store = newRowsApp(t, core.Config{}, created).store
			longest := map[string]time.Duration{"table": 2 * time.Minute, "no table": store.DefaultDeadline}[name] + 15*time.Second
			before := time.Now().Add(longest).Truncate(time.Second)
			w := newOpsApp(t, cfg, created).serveErase(operator, eraseAlice)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			var got struct {
				AgainAt time.Time `json:"again_at"`
				Detail  string
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
			scope := core.Scoping{}.PrincipalScope(alice)
			require.Contains(t, got.Detail, "nothing was found")
			require.Contains(t, got.Detail, hex.EncodeToString(scope[:4]))
			require.NotContains(t, w.Body.String(), alice.Subject, "the answer is recorded")
			require.False(t, got.AgainAt.Before(before), got.AgainAt)
			require.False(t, got.AgainAt.After(time.Now().Add(longest)), got.AgainAt)
		})
	}
}
