package echoidem

import (
	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// OperationHandler answers what is known of the operation that the route's parameter "id" names, to its own principal
// and to operators (contract M-7). Mounted behind JWTGuard or Bridge:
//
//	e.GET("/operations/:id", echoidem.OperationHandler(idem))
func OperationHandler(idem *core.Module) echo.HandlerFunc {
	return func(c echo.Context) error {
		p, _ := authctx.FromContext(c.Request().Context())
		return send(c, idem.ServeOperation(c.Request(), p, c.Param("id")))
	}
}

// OwnOperationHandler answers what is known of the caller's own operation with the key in the request's header, for a
// client that has lost the answer (contract M-8). Nothing is run. Mounted behind JWTGuard or Bridge:
//
//	e.GET("/operation", echoidem.OwnOperationHandler(idem))
func OwnOperationHandler(idem *core.Module) echo.HandlerFunc {
	return func(c echo.Context) error {
		p, _ := authctx.FromContext(c.Request().Context())
		return send(c, idem.ServeOwnOperation(c.Request(), p))
	}
}

// OperationsHandler lists the unknown operations to operators. For its query parameters see core's ServeOperations.
// Mounted behind JWTGuard or Bridge:
//
//	e.GET("/operations", echoidem.OperationsHandler(idem))
func OperationsHandler(idem *core.Module) echo.HandlerFunc {
	return func(c echo.Context) error {
		p, _ := authctx.FromContext(c.Request().Context())
		return send(c, idem.ServeOperations(c.Request(), p))
	}
}

// SettleHandler lets operators settle the unknown operation that the route's parameter "id" names (contract X-7). For
// its body see core's ServeSettle. Mounted behind JWTGuard or Bridge, and Idempotent:
//
//	e.POST("/operations/:id/settle", echoidem.SettleHandler(idem))
func SettleHandler(idem *core.Module) echo.HandlerFunc {
	return func(c echo.Context) error {
		p, _ := authctx.FromContext(c.Request().Context())
		return send(c, idem.ServeSettle(c.Request(), p, c.Param("id")))
	}
}
