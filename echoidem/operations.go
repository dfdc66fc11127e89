package echoidem

import (
	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
)

// Operations answers requests to a handler of package operations, which says what each of them does. The operation is the
// route's parameter "id". Mount it behind JWTGuard or Bridge, and behind Idempotent what changes something:
//
//	e.GET("/operations/:id", echoidem.Operations(idem, operations.Show))
//	e.GET("/operation", echoidem.Operations(idem, operations.Own))
//	e.GET("/operations", echoidem.Operations(idem, operations.List))
//	e.POST("/operations/find", echoidem.Operations(idem, operations.Find))
//	e.POST("/operations/:id/settle", echoidem.Operations(idem, operations.Settle))
//	e.POST("/operations/:id/retry", echoidem.Operations(idem, operations.Retry))
//	e.POST("/operations/:id/give-up", echoidem.Operations(idem, operations.GiveUp))
//	e.POST("/erasures", echoidem.Operations(idem, operations.Erase))
//	e.POST("/keys/refusals", echoidem.Operations(idem, operations.RefuseKeys))
//	e.POST("/operations/marks", echoidem.Operations(idem, operations.Mark))
func Operations(idem *core.Module, what operations.Handler) echo.HandlerFunc {
	ops := operations.New(idem)
	return func(c echo.Context) error {
		p, _ := authctx.FromContext(c.Request().Context())
		return send(c, ops.Serve(what, c.Request(), p, c.Param("id")))
	}
}
