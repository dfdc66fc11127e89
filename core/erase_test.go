package core_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

var orderToErase = core.Erasure{Principal: alice, Who: "olga", Why: "request 7 of the data protection office"}

// A repeat of an erased command gets what it would get after the end of retention. It never runs again.
//
// CONTRACT M-1, M-5, M-7, S-1
func TestErasedCommandNeverRunsAgain(t *testing.T) {
	a := newRowsApp(t, core.Config{Policy: core.Policy{Recovery: core.Park}}, created)
	bob := alice
	bob.Subject = "bob"
	require.Equal(t, http.StatusCreated, a.post("k-1", `{"amount":1}`).Code)
	require.Equal(t, http.StatusCreated, a.postAs(bob, "k-1", `{"amount":1}`).Code)

	module := a.module
	erased, err := module.Erase(t.Context(), orderToErase)
	require.ErrorContains(t, err, "cannot erase", "the store behind the faults is hidden")
	require.Zero(t, erased)
	config := core.Config{Store: a.store, Policy: core.Policy{Recovery: core.Park}}
	module, err = core.New(config)
	require.NoError(t, err)
	_, err = module.Erase(t.Context(), orderToErase)
	require.ErrorContains(t, err, "Config.Observer is required")
	config.Observer = core.LogObserver(slog.New(slog.DiscardHandler))
	module, err = core.New(config)
	require.NoError(t, err)
	erased, err = module.Erase(t.Context(), orderToErase)
	require.NoError(t, err)
	require.Equal(t, core.Erased{Records: 1}, erased)

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

// What was erased before an error stays erased and is told; who asked, and why, is told before anything is erased.
func TestErasureThatIsCutOff(t *testing.T) {
	store := &erasing{Store: memstore.New(), dies: 3}
	a := newApp(t, core.Config{Store: store}, status(http.StatusBadGateway))
	require.Equal(t, http.StatusBadGateway, a.post("k-1", `{}`).Code) // unknown: it is left
	a.events = nil

	erased, err := a.module.Erase(t.Context(), orderToErase)
	require.ErrorContains(t, err, "the connection is gone")
	require.Equal(t, core.Erased{Records: 2}, erased)
	require.Equal(t, []core.EventKind{core.EventErasing, core.EventErased}, a.kinds())
	begun, ended := a.events[0], a.events[1]
	require.Equal(t, core.Event{Kind: core.EventErasing, Scope: core.Scoping{}.PrincipalScope(alice), Who: orderToErase.Who, Why: orderToErase.Why}, begun)
	require.ErrorContains(t, ended.Err, "the connection is gone")
	ended.Err = nil
	require.Equal(t, core.Event{Kind: core.EventErased, Scope: begun.Scope, Who: orderToErase.Who, Why: orderToErase.Why, Count: 2}, ended)

	erased, err = a.module.Erase(t.Context(), orderToErase)
	require.NoError(t, err)
	require.Equal(t, 2, erased.Records)
	require.Equal(t, []core.ID{core.Scoping{}.RecordID(alice, "k-1")}, erased.Open)
	require.Equal(t, 1, a.events[len(a.events)-1].Open)
}

// The erasure comes while the handler is at work: its operation is named, and its answer is recorded afterwards.
func TestErasureWhileAnAttemptRuns(t *testing.T) {
	var a *app
	a = newApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
		erased, err := a.module.Erase(r.Context(), orderToErase)
		require.NoError(t, err)
		require.Equal(t, core.Erased{Open: []core.ID{core.Scoping{}.RecordID(alice, "k-1")}}, erased)
		created(w, r)
	})
	require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	again := a.post("k-1", `{}`)
	require.Equal(t, core.ResultReused, again.Header().Get(core.HeaderResult))
	erased, err := a.module.Erase(t.Context(), orderToErase)
	require.NoError(t, err)
	require.Equal(t, core.Erased{Records: 1}, erased)
}

func TestErasureIsRefused(t *testing.T) {
	a := newApp(t, core.Config{Scoping: core.Scoping{RequireTenant: true}}, created)
	tenanted := alice
	tenanted.Tenant = "t-1"
	for name, e := range map[string]core.Erasure{
		"Principal": {Who: "olga", Why: "asked"},
		"tenant":    {Principal: alice, Who: "olga", Why: "asked"},
		"Who":       {Principal: tenanted, Who: " ", Why: "asked"},
		"Why":       {Principal: tenanted, Who: "olga"},
	} {
		_, err := a.module.Erase(t.Context(), e)
		require.ErrorContains(t, err, name)
	}
	require.Empty(t, a.kinds())

	// By another scope there would be nothing to erase, and nobody would notice.
	store := memstore.New()
	first := newApp(t, core.Config{Store: store}, created)
	require.Equal(t, http.StatusCreated, first.post("k-1", `{}`).Code)
	other := newApp(t, core.Config{Store: store, Scoping: core.Scoping{Namespace: "other"}}, created)
	_, err := other.module.Erase(t.Context(), orderToErase)
	require.ErrorIs(t, err, core.ErrScoping)
}

// CONTRACT K-6
func TestErasureIsLogged(t *testing.T) {
	var log bytes.Buffer
	observer := core.LogObserver(slog.New(slog.NewTextHandler(&log, nil)))
	module, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}, Observer: observer})
	require.NoError(t, err)
	_, err = module.Erase(t.Context(), orderToErase)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	for _, line := range lines {
		require.Contains(t, line, "level=INFO")
		require.Contains(t, line, "who=olga")
		require.Contains(t, line, `why="request 7 of the data protection office"`)
		require.NotContains(t, line, alice.Subject)
	}
}
