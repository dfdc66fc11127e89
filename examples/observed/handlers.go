package main

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/examples/internal/web"
)

// answer runs what a route does, and writes its answer or its problem.
func answer[Out any](c *gin.Context, status int, do func(context.Context, authctx.Principal) (Out, error)) {
	p, _ := authctx.FromContext(c.Request.Context())
	out, err := do(c.Request.Context(), p)
	if err != nil {
		refuse(c, web.ProblemOf(err))
		return
	}
	c.JSON(status, out)
}

// command handles a route with a body.
func command[In, Out any](status int, do func(context.Context, authctx.Principal, In) (Out, error)) gin.HandlerFunc {
	return namedCommand(status, func(ctx context.Context, p authctx.Principal, _ string, in In) (Out, error) {
		return do(ctx, p, in)
	})
}

// namedCommand handles a route with a body and an id in its path.
func namedCommand[In, Out any](status int,
	do func(_ context.Context, _ authctx.Principal, id string, in In) (Out, error),
) gin.HandlerFunc {
	return func(c *gin.Context) {
		answer(c, status, func(ctx context.Context, p authctx.Principal) (out Out, err error) {
			var in In
			if err := web.Decode(c.Request, &in); err != nil {
				return out, err
			}
			return do(ctx, p, c.Param("id"), in)
		})
	}
}

// named handles a route with an id in its path, and no body.
func named[Out any](do func(_ context.Context, _ authctx.Principal, id string) (Out, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		answer(c, http.StatusOK, func(ctx context.Context, p authctx.Principal) (Out, error) { return do(ctx, p, c.Param("id")) })
	}
}

// read handles a route with neither.
func read[Out any](do func(context.Context, authctx.Principal) (Out, error)) gin.HandlerFunc {
	return func(c *gin.Context) { answer(c, http.StatusOK, do) }
}

func refuse(c *gin.Context, p web.Problem) {
	c.Header("Content-Type", web.ProblemType)
	c.AbortWithStatusJSON(p.Status, p)
}

// recovery turns a panic into a 500. Gin's own would log the request's headers, and a log must not contain keys.
func recovery() gin.HandlerFunc {
	return gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, cause any) {
		slog.Error("a handler panicked", "panic", cause, "stack", string(debug.Stack()))
		refuse(c, web.ProblemOfStatus(http.StatusInternalServerError))
	})
}
