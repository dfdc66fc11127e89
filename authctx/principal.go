package authctx

import (
	"context"

	"github.com/auth19/idem/core"
)

// Principal is the authenticated caller: issuer, tenant and subject, which a key is scoped to, the client that it uses, and
// roles.
type Principal = core.Principal

type contextKey struct{}

// NewContext returns a context that carries p. Only call it with a principal out of a verified token.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the principal that ctx carries. It is false where there is none, or none that is valid: a caller
// without issuer or subject is nobody, not an anonymous scope (contract O-2).
func FromContext(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(contextKey{}).(Principal)
	if !ok || !p.Valid() {
		return Principal{}, false
	}
	return p, true
}
