package authctx

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/auth19/idem/core"
)

// Refuse is the decision of a JWT guard: nil where a request may go on as p, else the 401 to answer. Why is not told to the
// client, which would help only a forger, but to the observers, as a core.EventRefused with the reason in Err: nothing of
// the token, and of an error that is not of this package no more than its type (contract O-7). route is the router's
// pattern.
func Refuse(r *http.Request, route string, p Principal, err error, observers ...core.Observer) *core.Reply {
	if err == nil && p.Valid() {
		return nil
	}
	e := core.Event{Kind: core.EventRefused, Method: r.Method, Route: route, Code: core.CodeUnauthenticated, Err: reasonOf(err)}
	for _, o := range observers {
		if o != nil {
			observe(r, o, e)
		}
	}
	return core.NewProblem(core.CodeUnauthenticated, "a valid bearer token is required").Reply()
}

// reasonOf is an error that holds nothing else: what it was caused by may quote the token.
func reasonOf(err error) error {
	switch {
	case err == nil:
		return errors.New("the principal has no issuer or no subject")
	case errors.Is(err, ErrUnauthenticated):
		return errors.New(textOf(err))
	}
	return fmt.Errorf("the app found no principal: %T", err)
}

// textOf is the text of this package's own error in err: an app may have wrapped it in a text that quotes the token.
func textOf(err error) string {
	if own, ok := errors.AsType[*refusal](err); ok {
		return own.Error()
	}
	return ErrUnauthenticated.Error()
}

// observe tells an observer, whose panic is no reason to fail a request.
func observe(r *http.Request, o core.Observer, e core.Event) {
	defer func() { _ = recover() }()
	o.Observe(r.Context(), e)
}
