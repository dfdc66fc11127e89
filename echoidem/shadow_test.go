package echoidem_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// In shadow a handler runs outside any attempt, as often as it is called, and its answer goes out as it is.
func TestShadow(t *testing.T) {
	sqlite := newSQLite(t)
	cfg := sqlite.config()
	cfg.Policy.ShadowUntil = time.Now().Add(time.Hour)
	var runs atomic.Int64
	e := echo.New()
	v1 := guarded(t, e, cfg)
	v1.POST("/pay", func(c echo.Context) error {
		ctx := c.Request().Context()
		assert.True(t, core.InShadow(ctx))
		_, inside := gormstore.TxFrom(ctx)
		assert.False(t, inside)
		body, err := io.ReadAll(c.Request().Body)
		assert.NoError(t, err)
		assert.NoError(t, sqlite.db.WithContext(ctx).Create(&payment{Amount: 1}).Error, "no attempt is there to guard")
		c.Response().Header().Set("X-Run", "1")
		return c.String(http.StatusCreated, fmt.Sprintf("%d %s", runs.Add(1), body))
	})
	// CONTRACT X-6
	v1.POST("/tx", func(c echo.Context) error {
		assert.Panics(t, func() { gormstore.Tx(c.Request().Context()) })
		return c.NoContent(http.StatusNoContent)
	})
	a := serve(t, e)
	for i, key := range []string{"key-1", "key-1", "", "a, b"} {
		got := a.do(call{key: key, body: "body"})
		require.Equal(t, http.StatusCreated, got.status)
		require.Equal(t, string(rune('1'+i))+" body", got.body)
		require.Equal(t, "1", got.header.Get("X-Run"))
		require.Empty(t, got.header.Get("Idempotency-Result"))
		require.Empty(t, got.header.Get("Idempotent-Replayed"))
	}
	require.EqualValues(t, 4, sqlite.payments(t))
	require.Equal(t, http.StatusNoContent, a.do(call{path: "/v1/tx"}).status)
	// CONTRACT O-1
	requireProblem(t, http.StatusUnauthorized, "unauthenticated", a.do(call{key: "key-1", token: "-"}))
}

// CONTRACT M-3
func TestRekey(t *testing.T) {
	sqlite := newSQLite(t)
	cfg := sqlite.config()
	cfg.Policy.Rekey = core.RekeyRefuse
	e := echo.New()
	guarded(t, e, cfg).POST("/pay", func(c echo.Context) error {
		pay(t, c)
		return c.NoContent(http.StatusCreated)
	})
	a := serve(t, e)
	a.requireReplay(call{key: "key-1", body: "body"})
	again := a.do(call{key: "key-2", body: "body"})
	requireProblem(t, http.StatusConflict, "suspected_duplicate", again)
	earlier := core.RecordID(core.Principal{Issuer: issuer, Subject: "customer-1"}, "key-1")
	require.Contains(t, again.body, `"operation":"`+earlier.String()+`"`)
	require.EqualValues(t, 1, sqlite.payments(t))
}
