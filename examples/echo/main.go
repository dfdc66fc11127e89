// The example app on Echo: go run ./examples/echo. It needs nothing but Go, and prints what to try.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/openapi"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/examples/internal/app"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/gormstore"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once

	a, err := app.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()

	e := router(a)
	// The check at start-up: every unsafe route has its guards, and every money table has its second line.
	if err := errors.Join(echoidem.Audit(e, a.Idem), gormstore.Audit(ctx, a.DB, shop.MoneyModels()...)); err != nil {
		return err
	}
	return a.Serve(ctx, e)
}

func router(a *app.App) *echo.Echo {
	e := echo.New()
	echoidem.TrackRoutes(e) // before the first route
	e.HTTPErrorHandler = renderError
	e.Use(recovery())
	e.GET("/healthz", healthz)
	e.GET("/readyz", echo.WrapHandler(core.Readiness{Module: a.Idem}))
	e.GET("/idempotency", echo.WrapHandler(openapi.PolicyHandler(a.Idem)))
	mountDemo(e, a)

	h := handlers{a.Shop}
	v1 := e.Group("/v1", echoidem.JWTGuard(a.Verifier, a.Observer), echoidem.Idempotent(a.Idem))
	v1.POST("/orders", h.placeOrder)
	v1.GET("/orders/:id", h.order)
	v1.POST("/orders/:id/cancel", h.cancelOrder)
	v1.POST("/payments", h.pay)
	v1.GET("/payments", h.payments)
	v1.GET("/payments/:id", h.payment)
	v1.POST("/payments/:id/refunds", h.refund)
	v1.POST("/payouts", h.payout)
	v1.GET("/balance", h.balance)
	v1.POST("/balance/charge", h.charge)
	v1.POST("/balance/credit", h.credit)
	v1.PATCH("/profile", h.rename)
	v1.GET("/ledger", h.ledger)
	v1.GET("/operations", echoidem.Operations(a.Idem, operations.List))
	v1.POST("/operations/find", echoidem.Operations(a.Idem, operations.Find))
	v1.GET("/operation", echoidem.Operations(a.Idem, operations.Own))
	v1.GET("/operations/:id", echoidem.Operations(a.Idem, operations.Show))
	v1.POST("/operations/:id/settle", echoidem.Operations(a.Idem, operations.Settle))
	v1.POST("/operations/:id/retry", echoidem.Operations(a.Idem, operations.Retry))
	v1.POST("/operations/:id/give-up", echoidem.Operations(a.Idem, operations.GiveUp))
	v1.POST("/erasures", echoidem.Operations(a.Idem, operations.Erase))
	v1.POST("/keys/refusals", echoidem.Operations(a.Idem, operations.RefuseKeys))
	v1.POST("/operations/marks", echoidem.Operations(a.Idem, operations.Mark))

	pages := echo.WrapHandler(a.Inspector) // for operators: docs/inspector.md
	e.GET("/idem/*", pages)
	e.HEAD("/idem/*", pages)
	e.POST("/idem/find", pages)
	e.POST("/idem/operations/:id/answer", pages)
	e.POST("/idem/operations/:id/settle", pages)
	e.POST("/idem/operations/:id/proposal", pages)
	e.POST("/idem/operations/:id/push", pages)
	e.POST("/idem/operations/:id/note", pages)
	e.POST("/idem/restore/keys", pages)
	e.POST("/idem/restore/marks", pages)
	e.POST("/idem/erase", pages)
	e.GET("/idem-sign-in", echo.WrapHandler(a.SignIn))
	e.POST("/idem-sign-in", echo.WrapHandler(a.SignIn))
	return e
}
