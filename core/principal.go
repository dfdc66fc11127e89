package core

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Principal is the authenticated caller a key belongs to (contract S-1): issuer, tenant and subject of verified JWT
// claims, never the raw token. Two principals that differ in any of the three never share a record. If [Scoping] says
// that the client counts, the same holds for two clients. Roles do not belong to the scope, so a refreshed token is the
// same principal (S-2).
type Principal struct {
	Issuer  string   // "iss"; required
	Tenant  string   // optional; empty means that the issuer knows no tenants
	Client  string   // "azp" or "client_id": the app that the caller uses; counts only if Scoping says so (S-4)
	Subject string   // "sub"; required, unique only within issuer and tenant
	Roles   []string // what the caller may do now; read anew on every request (O-3)
}

// Valid reports whether p names a caller: issuer and subject are both set, and none of issuer, tenant and subject is what an
// unset id prints as. Behind a middleware that lets callers without a token pass, all of them would be one principal, and
// get each other's answers (S-6).
func (p Principal) Valid() bool {
	return !isNobody(p.Issuer) && !isNobody(p.Subject) && (p.Tenant == "" || !isNobody(p.Tenant))
}

// isNobody reports whether an id is empty, or what an unset one prints as: zeros (a number, a UUID, an ObjectID, in whatever
// form and behind whatever prefix of its own), a nil, a null, or fmt's mark of a wrong verb.
func isNobody(id string) bool {
	switch id {
	case "null", "(null)", "undefined", "None", "NaN", "-1":
		return true
	}
	const zeroUUID = "00000000-0000-0000-0000-000000000000"
	if strings.Contains(id, "<nil>") || strings.Contains(id, "%!") || strings.Contains(id, zeroUUID) {
		return true
	}
	id = strings.TrimSuffix(id, " false}") // of database/sql's types that may be null
	zeros := strings.Contains(id, "0") || strings.Trim(id, " {}[]\x00") == ""
	for part := range strings.FieldsFuncSeq(id, isSeparator) {
		switch unset := strings.Trim(strings.TrimPrefix(part, "0x"), "0") == ""; {
		case !unset:
			zeros = false
		case len(part) >= len("00000000000000000000"): // no kind of ids that stands behind a prefix is shorter
			return true
		}
	}
	return zeros
}

// isSeparator reports whether r says nothing by itself.
func isSeparator(r rune) bool {
	letterOrDigit := '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return r < utf8.RuneSelf && !letterOrDigit
}

// HasAnyRole reports whether p has at least one of roles. Without roles it is true.
func (p Principal) HasAnyRole(roles ...string) bool {
	return len(roles) == 0 || slices.ContainsFunc(roles, func(r string) bool { return slices.Contains(p.Roles, r) })
}

// IssuerRole is a role that counts only if the given issuer has given it. Otherwise another issuer, a customer's identity
// provider for instance, could make operators of its own (S-6).
type IssuerRole struct {
	Issuer string // "iss", as in [Principal]
	Role   string
}

// hasOneOf reports whether p has one of the roles from the issuer that may give it.
func (p Principal) hasOneOf(roles []IssuerRole) bool {
	return slices.ContainsFunc(roles, func(r IssuerRole) bool {
		return r.Issuer == p.Issuer && slices.Contains(p.Roles, r.Role)
	})
}

// checkRoles returns an error for a role without a name, which no caller has, and for one without an issuer, which any
// issuer could give.
func checkRoles(field string, roles []IssuerRole) error {
	for _, r := range roles {
		switch {
		case r.Role == "":
			return fmt.Errorf("%s: an empty role would never match; remove it", field)
		case isNobody(r.Issuer):
			return fmt.Errorf(`%s: role %q: name the issuer that may give it, the "iss" of your operators' tokens: another issuer `+
				"could give it, too", field, r.Role)
		}
	}
	return nil
}

// same reports whether p and q are the same principal of the same client. It compares the client even if Scoping ignores
// it, and ignores roles (S-2).
func (p Principal) same(q Principal) bool {
	return p.Issuer == q.Issuer && p.Tenant == q.Tenant && p.Client == q.Client && p.Subject == q.Subject
}
