package authctx

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

// Claims says how the claims of a verified token become a [Principal]. It is for apps that already have a JWT
// middleware, such as echo-jwt or gin-jwt. The middleware verifies signature, algorithm and audience. Claims reads the
// principal from the verified claims, with the client from "azp" or "client_id". A [Verifier] reads its tokens in the
// same way.
type Claims struct {
	// Issuers are the values of "iss" that the middleware's keys may sign for. Required.
	Issuers []string
	// TenantClaim names the claim with the tenant, default "tenant". A token without it has no tenant. A tenant that is
	// not a string is refused.
	TenantClaim string
	// RolesClaim names the claim with the roles, default "roles". It is an array of strings, or one string with spaces
	// between the roles, like "scope" (RFC 8693, section 4.2). A token without it has no roles.
	RolesClaim string
}

// maxNameLen is the longest subject, tenant or client, in bytes (OpenID Connect Core 1.0, section 2, for "sub").
const maxNameLen = 255

// bounds checks the times of every token, also of one that another middleware has verified: "exp" is required, and the
// leeway is never longer than a Verifier's.
var bounds = jwt.NewValidator(jwt.WithExpirationRequired(), jwt.WithLeeway(MaxLeeway))

// Check returns an error if c has no issuers. Such a configuration refuses every token.
func (c Claims) Check() error {
	if len(c.Issuers) == 0 || slices.Contains(c.Issuers, "") {
		return errors.New(`idem: authctx.Claims: Issuers: list the values of "iss" that your JWT middleware verifies; ` +
			"a subject is unique only within its issuer")
	}
	return nil
}

// FromToken returns the principal of a token that a middleware has parsed and verified: token.Valid must be true. If the
// middleware has read the claims into a struct of the app, which may lack the tenant, FromToken reads them again from the
// token. All errors are [ErrUnauthenticated].
func (c Claims) FromToken(token *jwt.Token) (Principal, error) {
	if token == nil || !token.Valid {
		return Principal{}, refuse("no verified token", nil)
	}
	claims, ok := token.Claims.(jwt.MapClaims)
	if !ok {
		claims = jwt.MapClaims{}
		// Unverified is right here: the middleware has verified this very string.
		if _, _, err := jwt.NewParser().ParseUnverified(token.Raw, claims); err != nil {
			return Principal{}, refuseToken(err)
		}
	}
	return c.Principal(claims)
}

// Principal returns the principal of verified claims. "iss", "sub" and "exp" are required, "iss" must be one of the
// Issuers, and "exp" and "nbf" are checked with a leeway of [MaxLeeway]. All errors are [ErrUnauthenticated].
//
// gin-jwt's ExtractClaims returns such claims; convert them to jwt.MapClaims.
func (c Claims) Principal(claims jwt.MapClaims) (Principal, error) {
	if err := c.Check(); err != nil {
		return Principal{}, refuse("not configured", err)
	}
	if err := bounds.Validate(claims); err != nil {
		return Principal{}, refuseToken(err)
	}
	issuer, err := claims.GetIssuer()
	if err != nil || !slices.Contains(c.Issuers, issuer) {
		return Principal{}, refuseToken(cmp.Or(err, jwt.ErrTokenInvalidIssuer))
	}
	subject, err := claims.GetSubject()
	if err != nil || subject == "" || !isName(subject) {
		return Principal{}, refuse(fmt.Sprintf("the subject is not a string of 1 to %d bytes", maxNameLen), err)
	}
	var tenant string
	if claim, ok := claims[cmp.Or(c.TenantClaim, "tenant")]; ok {
		if tenant, ok = claim.(string); !ok || !isName(tenant) {
			return Principal{}, refuse(fmt.Sprintf("the tenant is not a string of at most %d bytes", maxNameLen), nil)
		}
	}
	client, ok := clientOf(claims)
	if !ok {
		return Principal{}, refuse(fmt.Sprintf("the client is not a string of at most %d bytes", maxNameLen), nil)
	}
	roles, ok := toRoles(claims[cmp.Or(c.RolesClaim, "roles")])
	if !ok {
		return Principal{}, refuse("the roles are neither an array of strings nor a string", nil)
	}
	return Principal{Issuer: issuer, Tenant: tenant, Client: client, Subject: subject, Roles: roles}, nil
}

// clientOf returns the client that the token was issued to: "azp" (OpenID Connect Core 1.0, section 2), or else
// "client_id" (RFC 9068, section 2.2). A token may have neither.
func clientOf(claims jwt.MapClaims) (client string, ok bool) {
	claim, found := claims["azp"]
	if !found {
		if claim, found = claims["client_id"]; !found {
			return "", true
		}
	}
	client, ok = claim.(string)
	return client, ok && isName(client)
}

// isName reports whether s is short enough, and tells one principal from all others. A name that was not valid Unicode
// does not: parsing has replaced the bad bytes by U+FFFD, and other names may have become the same.
func isName(s string) bool {
	return len(s) <= maxNameLen && !strings.ContainsRune(s, utf8.RuneError)
}

// toRoles reads the claim with the roles. A nil claim means no roles.
func toRoles(claim any) (roles []string, ok bool) {
	switch claim := claim.(type) {
	case nil:
		return nil, true
	case string:
		return strings.Fields(claim), true
	case []string: // claims that were made in memory, not parsed
		return slices.Clone(claim), true
	case []any:
		roles = make([]string, len(claim))
		for i := range claim {
			if roles[i], ok = claim[i].(string); !ok {
				return nil, false
			}
		}
		return roles, true
	}
	return nil, false
}
