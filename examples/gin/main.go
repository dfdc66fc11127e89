// The example app on Gin: go run ./examples/gin. It needs nothing but Go, and prints what to try.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/openapi"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/examples/internal/app"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/ginidem"
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

	r := router(a)
	// The check at start-up: every unsafe route has its guards, and every money table has its second line.
	if err := errors.Join(ginidem.Audit(r, a.Idem), gormstore.Audit(ctx, a.DB, shop.MoneyModels()...)); err != nil {
		return err
	}
	return a.Serve(ctx, r)
}

func router(a *app.App) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.Use(recovery())
	r.NoRoute(notFound)
	r.NoMethod(methodNotAllowed)
	r.GET("/healthz", healthz)
	r.GET("/readyz", gin.WrapH(core.Readiness{Module: a.Idem}))
	r.GET("/idempotency", gin.WrapH(openapi.PolicyHandler(a.Idem)))
	mountDemo(r, a)

	h := handlers{a.Shop}
	v1 := r.Group("/v1", ginidem.JWTGuard(a.Verifier, a.Observer), ginidem.Idempotent(a.Idem))
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
	v1.GET("/operations", ginidem.Operations(a.Idem, operations.List))
	v1.POST("/operations/find", ginidem.Operations(a.Idem, operations.Find))
	v1.GET("/operation", ginidem.Operations(a.Idem, operations.Own))
	v1.GET("/operations/:id", ginidem.Operations(a.Idem, operations.Show))
	v1.POST("/operations/:id/settle", ginidem.Operations(a.Idem, operations.Settle))
	v1.POST("/operations/:id/retry", ginidem.Operations(a.Idem, operations.Retry))
	v1.POST("/operations/:id/give-up", ginidem.Operations(a.Idem, operations.GiveUp))
	v1.POST("/erasures", ginidem.Operations(a.Idem, operations.Erase))
	v1.POST("/keys/refusals", ginidem.Operations(a.Idem, operations.RefuseKeys))
	v1.POST("/operations/marks", ginidem.Operations(a.Idem, operations.Mark))

	pages := gin.WrapH(a.Inspector) // for operators: docs/inspector.md
	r.GET("/idem/*page", pages)
	r.HEAD("/idem/*page", pages)
	r.POST("/idem/find", pages)
	r.POST("/idem/operations/:id/answer", pages)
	r.POST("/idem/operations/:id/settle", pages)
	r.POST("/idem/operations/:id/proposal", pages)
	r.POST("/idem/operations/:id/push", pages)
	r.POST("/idem/operations/:id/note", pages)
	r.POST("/idem/restore/keys", pages)
	r.POST("/idem/restore/marks", pages)
	r.POST("/idem/erase", pages)
	r.GET("/idem-sign-in", gin.WrapH(a.SignIn))
	r.POST("/idem-sign-in", gin.WrapH(a.SignIn))
	return r
}
