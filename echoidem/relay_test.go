package echoidem_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/upstream"
)

// A handler relays an upstream that breaks off: no client takes what came of it for the answer, and nothing replays it.
// The standard library's proxy panics then, with the header written.
//
// CONTRACT R-8
func TestRelayBreaksOff(t *testing.T) {
	for framing, short := range map[string]string{"of a length": upstream.ShortLength, "in chunks": upstream.ShortChunks} {
		for recovers, stock := range map[string]bool{"": false, ", recovered": true} {
			for name, policy := range map[string]core.Policy{
				"Park":            {Recovery: core.Park},
				"streaming":       {Recovery: core.Park, Streaming: true},
				"Resume":          {Recovery: core.Resume},
				"Resume, streams": {Recovery: core.Resume, Streaming: true},
				"Rollback":        {Recovery: core.Rollback},
			} {
				t.Run(framing+", "+name+recovers, func(t *testing.T) {
					sqlite, proxy := newSQLite(t), upstream.Relay(t, short)
					e := echo.New()
					e.Logger.SetOutput(io.Discard)
					if stock {
						e.Use(middleware.Recover())
					}
					var runs atomic.Int64
					guarded(t, e, core.Config{Store: sqlite.store, Policy: policy}).POST("/pay", func(c echo.Context) error {
						runs.Add(1)
						if policy.Recovery == core.Rollback {
							pay(t, c)
						}
						proxy.ServeHTTP(c.Response(), c.Request())
						return nil
					})
					a := serve(t, e)
					first, again := a.do(call{key: "key-1"}), a.do(call{key: "key-1"})
					requireBroken(t, first)
					require.Zero(t, sqlite.payments(t))
					if policy.Recovery == core.Park {
						requireProblem(t, http.StatusConflict, "outcome_unknown", again)
						require.EqualValues(t, 1, runs.Load())
						return
					}
					requireBroken(t, again)
					require.EqualValues(t, 2, runs.Load())
				})
			}
		}
	}
}

// requireBroken requires an answer that nobody takes for a success: a failure, or one that breaks off.
func requireBroken(t testing.TB, got answer) {
	t.Helper()
	require.True(t, got.err != nil || got.status >= http.StatusInternalServerError, "%+v", got)
	require.NotContains(t, []string{"created", "reused"}, got.header.Get("Idempotency-Result"))
}
