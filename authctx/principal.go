package authctx

import (
	"context"

	"github.com/auth19/idem/core"
)

// Principal is the authenticated caller. Issuer, tenant and subject are the scope of its keys. It also has the client
// that the token was issued to, and roles.
type Principal = core.Principal

type contextKey struct{}

// NewContext returns a context that carries p. Call it only with a principal from a verified token.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the principal that ctx carries. It returns false if there is none, or if it has no issuer or no
// subject: such a caller has no scope, not an anonymous one.
func FromContext(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(contextKey{}).(Principal)
	if !ok || !p.Valid() {
		return Principal{}, false
	}
	return p, true
}
