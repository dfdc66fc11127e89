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
	// TenantClaim names the claim with the tenant, default "tenant". It may be a path, such as "organization.id": see
	// RolesClaim. A token without the claim has no tenant. A tenant that is not a string is refused.
	TenantClaim string
	// Tenant, if set, finds the tenant in the verified claims, in place of TenantClaim: for a number, or for a tenant that
	// stands in a list. An error refuses the token. The error's text goes nowhere, because it may quote the token. Return ""
	// for a token without a tenant: that is a scope of its own.
	Tenant func(claims jwt.MapClaims) (string, error)
	// RolesClaim names the claim with the roles, default "roles". It is an array of strings, or one string with spaces
	// between the roles, like "scope" (RFC 8693, section 4.2). A token without it has no roles.
	//
	// It may be a path: "realm_access.roles" (Keycloak) is the member roles of the claim realm_access. A claim that has the
	// whole name comes first, dots included, such as "https://shop.example/roles". If a part of a path is not an object, the
	// token is refused.
	RolesClaim string
}

// maxNameLen is the longest subject, tenant or client, in bytes (OpenID Connect Core 1.0, section 2, for "sub").
const maxNameLen = 255

// bounds checks the times of every token, also of one that another middleware has verified: "exp" is required, and the
// leeway is never longer than a Verifier's.
var bounds = jwt.NewValidator(jwt.WithExpirationRequired(), jwt.WithLeeway(MaxLeeway))

// Check returns an error if c has no issuers, or says twice where the tenant is. Such a configuration refuses every token.
func (c Claims) Check() error {
	if len(c.Issuers) == 0 || slices.Contains(c.Issuers, "") {
		return errors.New(`idem: authctx.Claims: Issuers: list the values of "iss" that your JWT middleware verifies; ` +
			"a subject is unique only within its issuer")
	}
	if c.TenantClaim != "" && c.Tenant != nil {
		return errors.New("idem: authctx.Claims: Tenant: set it or TenantClaim, not both")
	}
	return nil
}

// FromToken returns the principal of a token that a middleware has parsed and verified: token.Valid must be true. If the
// middleware has read the claims into a struct of the app, which may lack the tenant, FromToken reads them again from the
// token. All errors are [ErrUnauthenticated].
func (c Claims) FromToken(token *jwt.Token) (Principal, error) {
	if token == nil || !token.Valid {
		return Principal{}, refuse("no verified token; mount Bridge behind the middleware that verifies it, and take the token "+
			"from where that middleware puts it", nil)
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
// gin-jwt's ExtractClaims returns such claims; convert them to jwt.MapClaims. Its tokens have neither "iss" nor "sub"
// unless its PayloadFunc adds them. For a token without them, such as one with a numeric user id, use [User].
func (c Claims) Principal(claims jwt.MapClaims) (Principal, error) {
	if err := c.Check(); err != nil {
		return Principal{}, refuse(strings.TrimPrefix(err.Error(), "idem: "), err)
	}
	if err := bounds.Validate(claims); err != nil {
		return Principal{}, refuseToken(err)
	}
	issuer, err := c.issuerOf(claims)
	if err != nil {
		return Principal{}, err
	}
	subject, err := subjectOf(claims)
	if err != nil {
		return Principal{}, err
	}
	tenant, err := c.tenantOf(claims)
	if err != nil {
		return Principal{}, err
	}
	client, ok := clientOf(claims)
	if !ok {
		return Principal{}, refuse(fmt.Sprintf("the client is not a string of at most %d bytes", maxNameLen), nil)
	}
	roles, err := c.rolesOf(claims)
	if err != nil {
		return Principal{}, err
	}
	p := Principal{Issuer: issuer, Tenant: tenant, Client: client, Subject: subject, Roles: roles}
	if !p.Valid() {
		return Principal{}, refuse("the issuer, the tenant or the subject is what an unset id prints as: nobody", nil)
	}
	return p, nil
}

// issuerOf returns "iss", if it is one of the Issuers.
func (c Claims) issuerOf(claims jwt.MapClaims) (string, error) {
	issuer, err := claims.GetIssuer()
	switch {
	case err != nil:
		return "", refuseToken(err)
	case issuer == "":
		return "", refuse(`the token has no "iss"; let its maker add it (gin-jwt: in PayloadFunc), or use authctx.User`, nil)
	case !slices.Contains(c.Issuers, issuer):
		return "", refuseToken(jwt.ErrTokenInvalidIssuer)
	}
	return issuer, nil
}

// subjectOf returns "sub".
func subjectOf(claims jwt.MapClaims) (string, error) {
	if claims["sub"] == nil {
		return "", refuse(`the token has no "sub"; let its maker add it (gin-jwt: in PayloadFunc), or use authctx.User`, nil)
	}
	subject, err := claims.GetSubject()
	if err != nil || subject == "" || !isName(subject) {
		return "", refuse(fmt.Sprintf(`"sub" is not a string of 1 to %d bytes`, maxNameLen), err)
	}
	return subject, nil
}

// tenantOf returns the tenant, or "" if the token has none.
func (c Claims) tenantOf(claims jwt.MapClaims) (string, error) {
	if c.Tenant != nil {
		tenant, err := c.Tenant(claims)
		if err != nil {
			return "", refuse("the app's function for the tenant has refused the token", err)
		}
		if !isName(tenant) {
			return "", refuse(fmt.Sprintf("the app's tenant is not a name of at most %d bytes", maxNameLen), nil)
		}
		return tenant, nil
	}
	claim, found, err := lookUp(claims, cmp.Or(c.TenantClaim, "tenant"))
	if err != nil {
		return "", refuse("the path of TenantClaim leads through a claim that is not an object", err)
	}
	tenant, ok := claim.(string)
	if found && (!ok || !isName(tenant)) {
		return "", refuse(fmt.Sprintf("the tenant is not a string of at most %d bytes", maxNameLen), nil)
	}
	return tenant, nil
}

// rolesOf returns the roles; a token may have none.
func (c Claims) rolesOf(claims jwt.MapClaims) ([]string, error) {
	claim, _, err := lookUp(claims, cmp.Or(c.RolesClaim, "roles"))
	if err != nil {
		return nil, refuse("the path of RolesClaim leads through a claim that is not an object", err)
	}
	roles, ok := toRoles(claim)
	if !ok {
		return nil, refuse("the roles are neither an array of strings nor a string", nil)
	}
	return roles, nil
}

// errNoObject says that a path of members cannot be followed.
var errNoObject = errors.New("not an object")

// lookUp returns the claim of that name, or else the one at the end of the path, whose names are separated by dots.
func lookUp(claims map[string]any, name string) (claim any, found bool, err error) {
	if claim, found = claims[name]; found {
		return claim, true, nil
	}
	path := strings.Split(name, ".")
	for i, member := range path {
		if claim, found = claims[member]; !found {
			return nil, false, nil
		}
		if i == len(path)-1 {
			break
		}
		object, ok := claim.(map[string]any)
		if !ok {
			return nil, false, errNoObject
		}
		claims = object
	}
	return claim, true, nil
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
		// At SP alone, as RFC 8693 has it: a role may have any other white space in it.
		return slices.DeleteFunc(strings.Split(claim, " "), func(role string) bool { return role == "" }), true
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
