package authctx

import (
	"context"
	"fmt"
	"reflect"
	"strconv"

	"github.com/auth19/idem/core"
)

// Principal is the authenticated caller. Issuer, tenant and subject are the scope of its keys. It also has the client
// that the token was issued to, and roles.
type Principal = core.Principal

// UserID are the types of ids that [User] takes.
type UserID interface {
	~string | ~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64
}

// User returns the principal of an app that knows its users by an id, and has verified the caller itself: by a token
// without "iss" and "sub", a session or an API key. issuer is a constant name of your own for where these ids come from,
// such as "https://shop.example". It belongs to the scope of each key: if it changes, all keys are free. roles may be empty.
//
// An id that is zero, negative or empty, and the texts "0" and "<nil>", are [ErrUnauthenticated]. That is what Gin and Echo
// return for a value that the app's middleware has not set: without this check, all callers without a user would be the same
// one.
func User[ID UserID](issuer string, id ID, roles ...string) (Principal, error) {
	subject := textOfID(reflect.ValueOf(id))
	switch {
	case issuer == "":
		return Principal{}, refuse("authctx.User got no issuer", nil)
	case subject == "", subject == "0", subject == "<nil>":
		return Principal{}, refuse("authctx.User got no user id: nothing has verified this caller, or the id has another name or "+
			"type (a number of jwt.MapClaims is a float64)", nil)
	case !isName(subject):
		return Principal{}, refuse(fmt.Sprintf("the user id is not valid Unicode of at most %d bytes", maxNameLen), nil)
	}
	return Principal{Issuer: issuer, Subject: subject, Roles: roles}, nil
}

// textOfID returns the id itself, never what its String method makes of it: that may be the same for two ids. It returns ""
// for a number that is no id.
func textOfID(id reflect.Value) string {
	switch {
	case id.CanInt() && id.Int() > 0:
		return strconv.FormatInt(id.Int(), 10)
	case id.CanUint() && id.Uint() > 0:
		return strconv.FormatUint(id.Uint(), 10)
	case id.Kind() == reflect.String:
		return id.String()
	}
	return ""
}

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
