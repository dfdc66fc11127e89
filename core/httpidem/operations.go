package httpidem

import (
	"net/http"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
)

// Operations answers requests to a handler of package operations, which says what each of them does. The operation is the
// route's parameter "id". Mount it behind JWTGuard or Bridge, and behind Idempotent what changes something:
//
//	mux.Handle("GET /operations/{id}", httpidem.Operations(idem, operations.Show))
//	mux.Handle("GET /operation", httpidem.Operations(idem, operations.Own))
//	mux.Handle("GET /operations", httpidem.Operations(idem, operations.List))
//	mux.Handle("POST /operations/find", httpidem.Operations(idem, operations.Find))
//	mux.Handle("POST /operations/{id}/settle", httpidem.Operations(idem, operations.Settle))
//	mux.Handle("POST /operations/{id}/retry", httpidem.Operations(idem, operations.Retry))
//	mux.Handle("POST /operations/{id}/give-up", httpidem.Operations(idem, operations.GiveUp))
//	mux.Handle("POST /erasures", httpidem.Operations(idem, operations.Erase))
//	mux.Handle("POST /keys/refusals", httpidem.Operations(idem, operations.RefuseKeys))
//	mux.Handle("POST /operations/marks", httpidem.Operations(idem, operations.Mark))
func Operations(idem *core.Module, what operations.Handler) http.Handler {
	ops := operations.New(idem)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := authctx.FromContext(r.Context())
		send(w, r, ops.Serve(what, r, p, r.PathValue("id")))
	})
}
