//go:build shop

package main

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/auth19/idem/examples/internal/web"
)

// problem is a problem as an error.
type problem struct{ web.Problem }

func (p problem) Error() string { return p.Title }

// refuse returns the problem that an error becomes.
func refuse(err error) error { return problem{web.ProblemOf(err)} }

// renderError is the app's HTTPErrorHandler: every error becomes a problem.
func renderError(c *echo.Context, err error) {
	if sent, unwrapErr := echo.UnwrapResponse(c.Response()); unwrapErr == nil && sent.Committed {
		return
	}
	p := web.ProblemOfStatus(http.StatusInternalServerError)
	if own, ok := errors.AsType[problem](err); ok {
		p = own.Problem
	} else if status := echo.StatusCode(err); status != 0 { // Echo's own, of its router for instance
		p = web.ProblemOfStatus(status)
	}
	c.Response().Header().Set(echo.HeaderContentType, web.ProblemType)
	if err := c.JSON(p.Status, p); err != nil {
		slog.Error("an answer could not be written", "error", err)
	}
}

// recovery turns a panic into a 500.
func recovery() echo.MiddlewareFunc { return middleware.Recover() }

func healthz(c *echo.Context) error { return c.JSON(http.StatusOK, map[string]string{"status": "ok"}) }
