package shop

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/auth19/idem/core"
)

// Roles of the callers.
const (
	RoleCustomer = "customer"
	RoleSeller   = "seller"
	RoleOperator = "operator"
)

// ownerOf returns the owner of a row: the whole principal, as a text of fixed length. The same subject of another issuer or
// tenant is another owner.
func ownerOf(p core.Principal) string {
	scope := core.Scoping{}.PrincipalScope(p)
	return hex.EncodeToString(scope[:])
}

// realmOf returns the realm of a seller: its issuer and tenant.
func realmOf(p core.Principal) string {
	return ownerOf(core.Principal{Issuer: p.Issuer, Tenant: p.Tenant})
}

// nameOf returns the principal as people read it: "subject", or "tenant/subject".
func nameOf(p core.Principal) string {
	name := p.Subject
	if p.Tenant != "" {
		name = p.Tenant + "/" + name
	}
	quoted := strconv.Quote(name) // a token may hold characters that no database stores
	return quoted[1 : len(quoted)-1]
}

// newID returns a new id for a row: a prefix of three letters and 128 random bits.
func newID(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()) }
