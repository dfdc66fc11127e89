package ginidem

import (
	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
)

// Operations answers requests to a handler of package operations, which says what each of them does. The operation is the
// route's parameter "id". Mount it behind JWTGuard or Bridge, and behind Idempotent what changes something:
//
//	r.GET("/operations/:id", ginidem.Operations(idem, operations.Show))
//	r.GET("/operation", ginidem.Operations(idem, operations.Own))
//	r.GET("/operations", ginidem.Operations(idem, operations.List))
//	r.POST("/operations/find", ginidem.Operations(idem, operations.Find))
//	r.POST("/operations/:id/settle", ginidem.Operations(idem, operations.Settle))
//	r.POST("/operations/:id/retry", ginidem.Operations(idem, operations.Retry))
//	r.POST("/operations/:id/give-up", ginidem.Operations(idem, operations.GiveUp))
//	r.POST("/erasures", ginidem.Operations(idem, operations.Erase))
//	r.POST("/keys/refusals", ginidem.Operations(idem, operations.RefuseKeys))
//	r.POST("/operations/marks", ginidem.Operations(idem, operations.Mark))
func Operations(idem *core.Module, what operations.Handler) gin.HandlerFunc {
	ops := operations.New(idem)
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, ops.Serve(what, c.Request, p, c.Param("id")))
	}
}
