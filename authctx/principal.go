package authctx

import (
	"context"
	"encoding/hex"
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
// An id that is zero, negative or empty is [ErrUnauthenticated], and so is a text that an unset id prints as: zeros, in the
// form of a UUID or an ObjectID too, "<nil>", "null" (see [Principal.Valid]). That is what Gin and Echo return for a value
// that the app's middleware has not set: without this check, all callers without a user would be the same one. For a UUID
// there is [UserUUID].
func User[ID UserID](issuer string, id ID, roles ...string) (Principal, error) {
	subject := textOfID(reflect.ValueOf(id))
	p := Principal{Issuer: issuer, Subject: subject, Roles: roles}
	switch {
	case issuer == "":
		return Principal{}, refuse("authctx.User got no issuer", nil)
	case !p.Valid():
		return Principal{}, refuse("authctx.User got no user id: nothing has verified this caller, or the id has another name or "+
			"type (a number of jwt.MapClaims is a float64)", nil)
	case !isName(subject):
		return Principal{}, refuse(fmt.Sprintf("the user id is not valid Unicode of at most %d bytes", maxNameLen), nil)
	}
	return p, nil
}

// UserUUID is [User] for an app whose ids are UUIDs: uuid.UUID of google/uuid and gofrs/uuid are such arrays. The
// subject is the UUID's usual text in lower case, so that one user has one scope however its id was spelled. The zero
// UUID is [ErrUnauthenticated].
func UserUUID(issuer string, id [16]byte, roles ...string) (Principal, error) {
	h := hex.EncodeToString(id[:])
	return User(issuer, h[:8]+"-"+h[8:12]+"-"+h[12:16]+"-"+h[16:20]+"-"+h[20:], roles...)
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

// FromContext returns the principal that ctx carries. It returns false if there is none, or if it stands for nobody (see
// [Principal.Valid]): such a caller has no scope, not an anonymous one.
func FromContext(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(contextKey{}).(Principal)
	if !ok || !p.Valid() {
		return Principal{}, false
	}
	return p, true
}
