package core

import "slices"

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

// Valid reports whether p names somebody: issuer and subject are both set.
func (p Principal) Valid() bool { return p.Issuer != "" && p.Subject != "" }

// HasAnyRole reports whether p has at least one of roles. Without roles it is true.
func (p Principal) HasAnyRole(roles ...string) bool {
	return len(roles) == 0 || slices.ContainsFunc(roles, func(r string) bool { return slices.Contains(p.Roles, r) })
}

// same reports whether p and q are the same principal of the same client. It compares the client even if Scoping ignores
// it, and ignores roles (S-2).
func (p Principal) same(q Principal) bool {
	return p.Issuer == q.Issuer && p.Tenant == q.Tenant && p.Client == q.Client && p.Subject == q.Subject
}
