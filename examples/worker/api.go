package main

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/app"
	"github.com/auth19/idem/examples/internal/demo"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/examples/internal/web"
	"github.com/auth19/idem/ginidem"
)

// api is the API of the example apps. Here the handlers are three short functions, because this example is about the
// worker. examples/gin shows how real handlers look.
func api(a *app.App) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.Use(gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, cause any) {
		slog.Error("a handler panicked", "panic", cause, "stack", string(debug.Stack()))
		abort(c, web.ProblemOfStatus(http.StatusInternalServerError))
	}))
	r.NoRoute(func(c *gin.Context) { abort(c, web.ProblemOfStatus(http.StatusNotFound)) })
	r.NoMethod(func(c *gin.Context) { abort(c, web.ProblemOfStatus(http.StatusMethodNotAllowed)) })
	mountDemo(r, a)
	r.GET("/healthz", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) })
	r.GET("/readyz", gin.WrapH(core.Readiness{Module: a.Idem}))

	s := a.Shop
	v1 := r.Group("/v1", ginidem.JWTGuard(a.Verifier, a.Observer), ginidem.Idempotent(a.Idem))
	v1.POST("/orders", command(http.StatusCreated, s.PlaceOrder))
	v1.GET("/orders/:id", one(s.Order))
	v1.POST("/orders/:id/cancel", one(s.CancelOrder))
	v1.POST("/payments", command(http.StatusCreated, s.Pay))
	v1.GET("/payments", all(s.Payments))
	v1.GET("/payments/:id", one(s.Payment))
	v1.POST("/payments/:id/refunds", func(c *gin.Context) {
		command(http.StatusCreated, func(ctx context.Context, p authctx.Principal, in shop.RefundInput) (any, error) {
			return s.Refund(ctx, p, c.Param("id"), in)
		})(c)
	})
	v1.POST("/payouts", command(http.StatusCreated, s.Payout))
	v1.GET("/balance", all(s.Balance))
	v1.POST("/balance/charge", command(http.StatusCreated, s.Charge))
	v1.POST("/balance/credit", command(http.StatusCreated, s.Credit))
	v1.PATCH("/profile", command(http.StatusOK, s.Rename))
	v1.GET("/ledger", all(func(ctx context.Context, _ authctx.Principal) ([]shop.Line, error) { return s.Ledger(ctx) }))
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

// mountDemo mounts the page with the Pay button: it is that of the other example apps.
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

// command handles a command with a body.
func command[In, Out any](
	status int, do func(ctx context.Context, p authctx.Principal, in In) (Out, error),
) gin.HandlerFunc {
	return func(c *gin.Context) {
		var in In
		if err := web.Decode(c.Request, &in); err != nil {
			abort(c, web.ProblemOf(err))
			return
		}
		out, err := do(c.Request.Context(), caller(c), in)
		answer(c, status, out, err)
	}
}

// one handles a request for one thing, whose id is in the path.
func one[Out any](do func(ctx context.Context, p authctx.Principal, id string) (Out, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		out, err := do(c.Request.Context(), caller(c), c.Param("id"))
		answer(c, http.StatusOK, out, err)
	}
}

// all handles a request for everything that the caller has.
func all[Out any](do func(ctx context.Context, p authctx.Principal) (Out, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		out, err := do(c.Request.Context(), caller(c))
		answer(c, http.StatusOK, out, err)
	}
}

func caller(c *gin.Context) authctx.Principal {
	p, _ := authctx.FromContext(c.Request.Context())
	return p
}

func answer(c *gin.Context, status int, out any, err error) {
	if err != nil {
		abort(c, web.ProblemOf(err))
		return
	}
	if status == http.StatusCreated {
		switch made := out.(type) {
		case *shop.Order:
			c.Header("Location", "/v1/orders/"+made.ID)
		case *shop.Payment:
			c.Header("Location", "/v1/payments/"+made.ID)
		}
	}
	c.JSON(status, out)
}

func abort(c *gin.Context, p web.Problem) {
	c.Header("Content-Type", web.ProblemType)
	c.AbortWithStatusJSON(p.Status, p)
}
