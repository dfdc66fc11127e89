package main

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/app"
	"github.com/auth19/idem/examples/internal/demo"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/ginidem"
)

// router has the same routes as examples/gin. What they do is in examples/internal/shop.
func router(a *app.App) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(recovery())
	r.GET("/healthz", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	r.GET("/readyz", gin.WrapH(core.Readiness{Module: a.Idem}))
	mountDemo(r, a)

	s := a.Shop
	v1 := r.Group("/v1", ginidem.JWTGuard(a.Verifier, a.Observer), ginidem.Idempotent(a.Idem))
	v1.POST("/orders", command(http.StatusCreated, s.PlaceOrder))
	v1.GET("/orders/:id", named(s.Order))
	v1.POST("/orders/:id/cancel", named(s.CancelOrder))
	v1.POST("/payments", command(http.StatusCreated, s.Pay))
	v1.GET("/payments", read(s.Payments))
	v1.GET("/payments/:id", named(s.Payment))
	v1.POST("/payments/:id/refunds", namedCommand(http.StatusCreated, s.Refund))
	v1.POST("/payouts", command(http.StatusCreated, s.Payout))
	v1.GET("/balance", read(s.Balance))
	v1.POST("/balance/charge", command(http.StatusCreated, s.Charge))
	v1.POST("/balance/credit", command(http.StatusCreated, s.Credit))
	v1.PATCH("/profile", command(http.StatusOK, s.Rename))
	v1.GET("/ledger", read(func(ctx context.Context, _ authctx.Principal) ([]shop.Line, error) { return s.Ledger(ctx) }))
	v1.GET("/operations", ginidem.OperationsHandler(a.Idem))
	v1.POST("/operations/find", ginidem.FindHandler(a.Idem))
	v1.GET("/operation", ginidem.OwnOperationHandler(a.Idem))
	v1.GET("/operations/:id", ginidem.OperationHandler(a.Idem))
	v1.POST("/operations/:id/settle", ginidem.SettleHandler(a.Idem))
	v1.POST("/operations/:id/retry", ginidem.RetryHandler(a.Idem))
	v1.POST("/operations/:id/give-up", ginidem.GiveUpHandler(a.Idem))
	v1.POST("/erasures", ginidem.EraseHandler(a.Idem))
	v1.POST("/keys/refusals", ginidem.RefuseKeysHandler(a.Idem))
	v1.POST("/operations/marks", ginidem.MarkHandler(a.Idem))

	pages := gin.WrapH(a.Inspector)
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

// mountDemo mounts the page with the Pay button: each click is a line in the metrics.
func mountDemo(r *gin.Engine, a *app.App) {
	r.GET("/", gin.WrapH(demo.Page(a.Demo != nil)))
	if a.Demo == nil {
		return
	}
	r.GET("/demo/files/:file", gin.WrapH(demo.Files()))
	r.GET("/demo/visitor", gin.WrapF(a.Demo.Visitor))
	callers := r.Group("/demo", ginidem.JWTGuard(a.Verifier, a.Observer), ginidem.Idempotent(a.Idem))
	callers.POST("/payments", gin.WrapF(a.Demo.Pay))
	callers.GET("/payments", gin.WrapF(a.Demo.Payments))
}
