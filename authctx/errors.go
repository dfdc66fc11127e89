package authctx

import (
	"errors"

	"github.com/golang-jwt/jwt/v5"
)

// ErrUnauthenticated is the error if this package finds no principal: use [errors.Is], and answer 401. The text of such
// an error contains nothing of the request. [errors.Unwrap] returns its cause, or nil; [errors.Is] finds golang-jwt's
// errors in it. The cause may quote the token: do not log it.
var ErrUnauthenticated = errors.New("idem: unauthenticated")

// refusal is a failure with a reason that is safe to show.
type refusal struct {
	reason string
	cause  error
}

func refuse(reason string, cause error) error { return &refusal{reason, cause} }

// Reason says why without anything of the token.
func (r *refusal) Reason() string       { return r.reason }
func (r *refusal) Error() string        { return ErrUnauthenticated.Error() + ": " + r.reason }
func (r *refusal) Is(target error) bool { return target == ErrUnauthenticated }
func (r *refusal) Unwrap() error        { return r.cause }

// refuseToken turns an error of golang-jwt into a refusal. The reason does not contain the error's own text, because the
// error of a key function may quote the token.
func refuseToken(err error) error {
	if own, ok := errors.AsType[*refusal](err); ok {
		return refuse(own.reason, err)
	}
	for _, known := range []struct {
		sentinel error
		reason   string
	}{
		{jwt.ErrTokenMalformed, "the token is malformed"},
		{jwt.ErrTokenSignatureInvalid, "the token's signature or algorithm is not accepted"},
		{jwt.ErrTokenUnverifiable, "the token's signature cannot be verified"},
		{jwt.ErrTokenExpired, "the token has expired"},
		{jwt.ErrTokenNotValidYet, "the token is not valid yet"},
		{jwt.ErrTokenUsedBeforeIssued, "the token was issued in the future"},
		{jwt.ErrTokenRequiredClaimMissing, `the token lacks "exp", "iss" or "aud"`},
		{jwt.ErrTokenInvalidIssuer, "the token is from another issuer"},
		{jwt.ErrTokenInvalidAudience, "the token is for another audience"},
	} {
		if errors.Is(err, known.sentinel) {
			return refuse(known.reason, err)
		}
	}
	return refuse("the token is invalid", err)
}
