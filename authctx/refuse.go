package authctx

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/auth19/idem/core"
)

// Refuse makes the decision of a JWT guard: it returns nil if the request may continue with p as its caller, else the
// 401 to answer. The client does not learn the reason, because that would help only a forger. The observers get it, in
// Err of a core.EventRefused. Err contains nothing of the token, and only the type of an error of another package
// (O-7). route is the router's pattern.
func Refuse(r *http.Request, route string, p Principal, err error, observers ...core.Observer) *core.Reply {
	if err == nil && p.Valid() {
		return nil
	}
	e := core.Event{Kind: core.EventRefused, Method: r.Method, Route: route, Code: core.CodeUnauthenticated, Err: reasonOf(err)}
	core.Observers(observers...).Observe(r.Context(), e)
	return core.NewProblem(core.CodeUnauthenticated, "a valid bearer token is required").Reply()
}

// Authenticate is the JWT guard of the adapters: it continues with p as the caller of x, or sends the 401 of [Refuse]. It
// returns the handler's error.
func Authenticate(x core.Exchange, p Principal, err error, observers []core.Observer) error {
	r := x.Request()
	if err == nil && p.Valid() {
		authenticated := r.WithContext(NewContext(r.Context(), p))
		x.SetRequest(authenticated)
		defer func() {
			if form := authenticated.MultipartForm; form != nil {
				r.MultipartForm = form // the server removes its files
			}
		}()
		return x.Next()
	}
	x.Send(Refuse(r, x.Pattern(), p, err, observers...))
	return nil
}

// reasonOf returns the reason as an error without a cause, because the cause may quote the token.
func reasonOf(err error) error {
	switch {
	case err == nil:
		return errors.New("the principal that the app has found lacks Issuer or Subject, or has one that an unset id " +
			"prints as")
	case errors.Is(err, ErrUnauthenticated):
		return errors.New(textOf(err))
	}
	return fmt.Errorf("the app found no principal: %T", err)
}

// textOf returns the text of this package's own error in err. An app may have wrapped it in a text that quotes the token.
func textOf(err error) string {
	if own, ok := errors.AsType[*refusal](err); ok {
		return own.Error()
	}
	return ErrUnauthenticated.Error()
}
