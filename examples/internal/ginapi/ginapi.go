// Package ginapi is the API of examples/gin for the example apps that are about something else. Its handlers are a few short
// functions; examples/gin shows how real handlers look.
package ginapi

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/examples/internal/app"
	"github.com/auth19/idem/examples/internal/demo"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/examples/internal/web"
	"github.com/auth19/idem/ginidem"
)

// New returns the API of an app.
func New(a *app.App) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.Use(recovery())
	r.NoRoute(func(c *gin.Context) { refuse(c, web.ProblemOfStatus(http.StatusNotFound)) })
	r.NoMethod(func(c *gin.Context) { refuse(c, web.ProblemOfStatus(http.StatusMethodNotAllowed)) })
	mountDemo(r, a)
	r.GET("/healthz", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) })
	r.GET("/readyz", gin.WrapH(core.Readiness{Module: a.Idem}))

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

// mountDemo mounts the page with the Pay button.
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

// answer runs what a route does, and writes its answer or its problem.
func answer[Out any](c *gin.Context, status int, do func(context.Context, authctx.Principal) (Out, error)) {
	p, _ := authctx.FromContext(c.Request.Context())
	out, err := do(c.Request.Context(), p)
	if err != nil {
		refuse(c, web.ProblemOf(err))
		return
	}
	if status == http.StatusCreated {
		switch made := any(out).(type) {
		case *shop.Order:
			c.Header("Location", "/v1/orders/"+made.ID)
		case *shop.Payment:
			c.Header("Location", "/v1/payments/"+made.ID)
		}
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
