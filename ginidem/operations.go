package ginidem

import (
	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// OperationHandler shows the operation whose id is the route's parameter "id" to its own principal and to operators.
// Mount it behind JWTGuard or Bridge:
//
//	r.GET("/operations/:id", ginidem.OperationHandler(idem))
func OperationHandler(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, idem.ServeOperation(c.Request, p, c.Param("id")))
	}
}

// OwnOperationHandler shows the caller's own operation with the key in the request's header. It is for a client that has
// lost the answer. Nothing is run. Mount it behind JWTGuard or Bridge:
//
//	r.GET("/operation", ginidem.OwnOperationHandler(idem))
func OwnOperationHandler(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, idem.ServeOwnOperation(c.Request, p))
	}
}

// OperationsHandler lists the unknown or the half-done operations to operators: see
// core.Config.OperatorRoles. For its query parameters see core's
// ServeOperations. Mount it behind JWTGuard or Bridge:
//
//	r.GET("/operations", ginidem.OperationsHandler(idem))
func OperationsHandler(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, idem.ServeOperations(c.Request, p))
	}
}

// FindHandler finds operations for operators: by a reference, a provider's key, or the client's key and its caller. It
// changes nothing: declare the route Exempt. For its body see core's ServeFind. Mount it behind JWTGuard or Bridge:
//
//	r.POST("/operations/find", ginidem.FindHandler(idem))
func FindHandler(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, idem.ServeFind(c.Request, p))
	}
}

// SettleHandler lets operators settle the unknown operation whose id is the route's parameter "id". For its body see
// core's ServeSettle. Mount it behind JWTGuard or Bridge, and behind Idempotent:
//
//	r.POST("/operations/:id/settle", ginidem.SettleHandler(idem))
func SettleHandler(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, idem.ServeSettle(c.Request, p, c.Param("id")))
	}
}

// RetryHandler lets operators try the half-done operation whose id is the route's parameter "id" again now. For its body see
// core's ServeRetry. Mount it as SettleHandler:
//
//	r.POST("/operations/:id/retry", ginidem.RetryHandler(idem))
func RetryHandler(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, idem.ServeRetry(c.Request, p, c.Param("id")))
	}
}

// GiveUpHandler lets operators park the half-done operation whose id is the route's parameter "id". For its body see core's
// ServeGiveUp. Mount it as SettleHandler:
//
//	r.POST("/operations/:id/give-up", ginidem.GiveUpHandler(idem))
func GiveUpHandler(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, idem.ServeGiveUp(c.Request, p, c.Param("id")))
	}
}

// EraseHandler lets operators erase what is kept of a principal. For its body see core's ServeErase. Mount it behind
// JWTGuard or Bridge, and behind Idempotent, with the recovery Resume:
//
//	r.POST("/erasures", ginidem.EraseHandler(idem))
func EraseHandler(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, idem.ServeErase(c.Request, p))
	}
}

// RefuseKeysHandler lets supervisors refuse timed keys that were made before a moment, after a restore. For its body see
// core's ServeRefuseKeys. Mount it as SettleHandler:
//
//	r.POST("/keys/refusals", ginidem.RefuseKeysHandler(idem))
func RefuseKeysHandler(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, idem.ServeRefuseKeys(c.Request, p))
	}
}

// MarkHandler lets supervisors mark operations that a provider knows and the database has lost, after a restore. For its
// body see core's ServeMark. Mount it as SettleHandler:
//
//	r.POST("/operations/marks", ginidem.MarkHandler(idem))
func MarkHandler(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		send(c, idem.ServeMark(c.Request, p))
	}
}
