package httpidem

import (
	"net/http"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// OperationHandler shows the operation whose id is the route's parameter "id" to its own principal and to operators.
// Mount it behind JWTGuard or Bridge:
//
//	mux.Handle("GET /operations/{id}", httpidem.OperationHandler(idem))
func OperationHandler(idem *core.Module) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, idem.ServeOperation(r, p, r.PathValue("id")))
	})
}

// OwnOperationHandler shows the caller's own operation with the key in the request's header. It is for a client that has
// lost the answer. Nothing is run. Mount it behind JWTGuard or Bridge:
//
//	mux.Handle("GET /operation", httpidem.OwnOperationHandler(idem))
func OwnOperationHandler(idem *core.Module) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, idem.ServeOwnOperation(r, p))
	})
}

// OperationsHandler lists the unknown or the half-done operations to operators: see
// core.Config.OperatorRoles. For its query parameters see core's ServeOperations.
// Mount it behind JWTGuard or Bridge:
//
//	mux.Handle("GET /operations", httpidem.OperationsHandler(idem))
func OperationsHandler(idem *core.Module) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, idem.ServeOperations(r, p))
	})
}

// FindHandler finds operations for operators: by a reference, a provider's key, or the client's key and its caller. It
// changes nothing: declare the route Exempt. For its body see core's ServeFind. Mount it behind JWTGuard or Bridge:
//
//	mux.Handle("POST /operations/find", httpidem.FindHandler(idem))
func FindHandler(idem *core.Module) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, idem.ServeFind(r, p))
	})
}

// SettleHandler lets operators settle the unknown operation whose id is the route's parameter "id". For its body see
// core's ServeSettle. Mount it behind JWTGuard or Bridge, and behind Idempotent:
//
//	mux.Handle("POST /operations/{id}/settle", httpidem.SettleHandler(idem))
func SettleHandler(idem *core.Module) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, idem.ServeSettle(r, p, r.PathValue("id")))
	})
}

// RetryHandler lets operators try the half-done operation whose id is the route's parameter "id" again now. For its body see
// core's ServeRetry. Mount it as SettleHandler:
//
//	mux.Handle("POST /operations/{id}/retry", httpidem.RetryHandler(idem))
func RetryHandler(idem *core.Module) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, idem.ServeRetry(r, p, r.PathValue("id")))
	})
}

// GiveUpHandler lets operators park the half-done operation whose id is the route's parameter "id". For its body see core's
// ServeGiveUp. Mount it as SettleHandler:
//
//	mux.Handle("POST /operations/{id}/give-up", httpidem.GiveUpHandler(idem))
func GiveUpHandler(idem *core.Module) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, idem.ServeGiveUp(r, p, r.PathValue("id")))
	})
}

// EraseHandler lets operators erase what is kept of a principal. For its body see core's ServeErase. Mount it behind
// JWTGuard or Bridge, and behind Idempotent, with the recovery Resume:
//
//	mux.Handle("POST /erasures", httpidem.EraseHandler(idem))
func EraseHandler(idem *core.Module) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, idem.ServeErase(r, p))
	})
}

// RefuseKeysHandler lets supervisors refuse timed keys that were made before a moment, after a restore. For its body see
// core's ServeRefuseKeys. Mount it as SettleHandler:
//
//	mux.Handle("POST /keys/refusals", httpidem.RefuseKeysHandler(idem))
func RefuseKeysHandler(idem *core.Module) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, idem.ServeRefuseKeys(r, p))
	})
}

// MarkHandler lets supervisors mark operations that a provider knows and the database has lost, after a restore. For its
// body see core's ServeMark. Mount it as SettleHandler:
//
//	mux.Handle("POST /operations/marks", httpidem.MarkHandler(idem))
func MarkHandler(idem *core.Module) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, idem.ServeMark(r, p))
	})
}
