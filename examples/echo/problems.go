package main

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/auth19/idem/examples/internal/web"
)

// refuse returns the problem that an error becomes, in Echo's own way.
func refuse(err error) error { return problem(web.ProblemOf(err)) }

func problem(p web.Problem) error { return echo.NewHTTPError(p.Status, p) }

// renderError is the app's HTTPErrorHandler: every error becomes a problem.
func renderError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p := web.ProblemOfStatus(http.StatusInternalServerError)
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		if p, ok = he.Message.(web.Problem); !ok { // Echo's own, of its router for instance
			p = web.ProblemOfStatus(he.Code)
		}
	}
	c.Response().Header().Set(echo.HeaderContentType, web.ProblemType)
	if err := c.JSON(p.Status, p); err != nil {
		slog.Error("an answer could not be written", "error", err)
	}
}

// recovery turns a panic into a 500.
func recovery() echo.MiddlewareFunc {
	return middleware.RecoverWithConfig(middleware.RecoverConfig{
		LogErrorFunc: func(_ echo.Context, err error, stack []byte) error {
			slog.Error("a handler panicked", "panic", err, "stack", string(stack))
			return err
		},
	})
}

func healthz(c echo.Context) error { return c.JSON(http.StatusOK, echo.Map{"status": "ok"}) }
