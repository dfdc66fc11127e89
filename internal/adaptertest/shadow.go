package adaptertest

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// In shadow a handler runs outside any attempt, as often as it is called, and its answer goes out as it is.
func shadow(t *testing.T, a Adapter) {
	sqlite, app := NewSQLite(t), a.New()
	cfg := sqlite.Config()
	cfg.Policy.ShadowUntil = time.Now().Add(time.Hour)
	var runs atomic.Int64
	v1 := Guarded(t, a, app, cfg)
	v1.Handle(http.MethodPost, "/pay", a.Handler(func(c Context) error {
		ctx := c.Request().Context()
		assert.True(t, core.InShadow(ctx))
		_, inside := gormstore.TxFrom(ctx)
		assert.False(t, inside)
		body, err := io.ReadAll(c.Request().Body)
		assert.NoError(t, err)
		PayWith(t, sqlite.DB.WithContext(ctx)) // no attempt is there to guard
		c.Writer().Header().Set("X-Run", "1")
		return c.String(http.StatusCreated, fmt.Sprintf("%d %s", runs.Add(1), body))
	}))
	// CONTRACT X-6
	v1.Handle(http.MethodPost, "/tx", a.Handler(func(c Context) error {
		assert.Panics(t, func() { gormstore.Tx(c.Request().Context()) })
		return c.NoContent(http.StatusNoContent)
	}))
	client := Serve(t, app)
	for i, key := range []string{"key-1", "key-1", "", "a, b"} {
		got := client.Do(Call{Key: key, Body: "body"})
		require.Equal(t, http.StatusCreated, got.Status)
		require.Equal(t, fmt.Sprint(i+1, " body"), got.Body)
		require.Equal(t, "1", got.Header.Get("X-Run"))
		require.Empty(t, got.Result())
		require.Empty(t, got.Header.Get("Idempotent-Replayed"))
	}
	require.EqualValues(t, 4, sqlite.Payments(t))
	require.Equal(t, http.StatusNoContent, client.Do(Call{Path: "/v1/tx"}).Status)
	// CONTRACT O-1
	RequireProblem(t, http.StatusUnauthorized, "unauthenticated", client.Do(Call{Key: "key-1", Token: "-"}))
}

// CONTRACT M-3
func rekey(t *testing.T, a Adapter) {
	sqlite := NewSQLite(t)
	cfg := sqlite.Config()
	cfg.Policy.RefuseRekeyed = true
	client := paying(t, a, cfg, func(c Context) error {
		Pay(t, c.Request().Context())
		return c.NoContent(http.StatusCreated)
	})
	client.RequireReplay(Call{Key: "key-1", Body: "body"})
	again := client.Do(Call{Key: "key-2", Body: "body"})
	RequireProblem(t, http.StatusConflict, "suspected_duplicate", again)
	earlier := core.Scoping{}.RecordID(core.Principal{Issuer: Issuer, Subject: "customer-1"}, "key-1")
	require.Contains(t, again.Body, `"operation":"`+earlier.String()+`"`)
	require.EqualValues(t, 1, sqlite.Payments(t))
}
