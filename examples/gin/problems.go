package main

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/examples/internal/web"
)

// refuse answers with the problem that an error becomes.
func refuse(c *gin.Context, err error) { abort(c, web.ProblemOf(err)) }

// abort answers with a problem, in Gin's own way.
func abort(c *gin.Context, p web.Problem) {
	c.Header("Content-Type", web.ProblemType)
	c.AbortWithStatusJSON(p.Status, p)
}

// recovery turns a panic into a 500. It writes the log itself: for some panics Gin
// logs the request's headers, and a log must not contain keys.
func recovery() gin.HandlerFunc {
	return gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, cause any) {
		slog.Error("a handler panicked", "panic", cause, "stack", string(debug.Stack()))
		abort(c, web.ProblemOfStatus(http.StatusInternalServerError))
	})
}

func notFound(c *gin.Context) { abort(c, web.ProblemOfStatus(http.StatusNotFound)) }

func methodNotAllowed(c *gin.Context) { abort(c, web.ProblemOfStatus(http.StatusMethodNotAllowed)) }

func healthz(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) }
