package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// lookups counts what is asked of a request's context, by the type of the key.
type lookups struct {
	context.Context
	asked map[string]int
}

func (l lookups) Value(key any) any {
	l.asked[fmt.Sprintf("%T", key)]++
	return l.Context.Value(key)
}

// principalOnce: roles guard, key guard and interceptor in one ask for the principal once.
func principalOnce(t *testing.T, a Adapter) {
	asked := map[string]int{}
	app := a.New()
	app.Use(a.JWTGuard(NewVerifier(t)), a.Middleware(func(c Context, next func() error) error {
		c.SetRequest(c.Request().WithContext(lookups{c.Request().Context(), asked}))
		return next()
	}))
	idem := NewModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park, Roles: []string{"customer"}}}})
	created := a.Handler(func(c Context) error { return c.JSON(http.StatusCreated, 1) })
	app.Handle(http.MethodPost, "/v1/pay", created, a.Idempotent(idem))
	client := Serve(t, app)
	for _, result := range []string{"created", "reused"} {
		clear(asked)
		answer := client.Do(Call{Path: "/v1/pay", Key: "key-1"})
		require.Equal(t, result, answer.Header.Get("Idempotency-Result"))
		require.Equal(t, 1, asked["authctx.contextKey"], asked)
	}
}
