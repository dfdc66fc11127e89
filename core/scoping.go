package core

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/auth19/idem/core/internal/digest"
	"github.com/auth19/idem/core/store"
)

// Scoping says what belongs to the scope of a key in addition to issuer, tenant and subject (S-4). Decide it before the
// first request: a change gives every caller another scope, and so makes all used keys free again. Therefore the store
// keeps the Scoping, and a module with another Scoping refuses all requests: see [Module.AdoptScoping].
type Scoping struct {
	// Namespace names the service. Two services that share a table need different namespaces. Default "".
	Namespace string
	// RequireTenant: a caller without a tenant is refused with 401. A caller's tenant always counts.
	RequireTenant bool
	// RequireClient: a caller without a client ("azp" or "client_id") is refused with 401, and the client counts: two
	// clients of one subject never share a record. Default: the client does not count.
	RequireClient bool
}

// recordIDVersion is part of every record id. The layout is frozen (K-6): a change would free every key in use.
const recordIDVersion = "idem/1"

// RecordID returns the id of the record for principal p and key. key is unquoted. Use the module's Config.Scoping; the
// zero Scoping is the default.
//
// It is SHA-256 over length-prefixed (version, namespace, issuer, tenant, client, subject, key); absent fields are empty
// (K-6). If the key is a UUIDv7, in either letter case, its first 48 bits, which are its time, replace those of the hash
// (K-9). Two spellings of a key in different case still have different ids.
func (s Scoping) RecordID(p Principal, key string) ID {
	id := ID(digest.Fields(recordIDVersion, s.Namespace, p.Issuer, p.Tenant, s.client(p), p.Subject, key))
	if isUUIDv7(key) {
		// Cannot fail: these are hex digits.
		_, _ = hex.Decode(id[:4], []byte(key[:8]))
		_, _ = hex.Decode(id[4:6], []byte(key[9:13]))
	}
	return id
}

// PrincipalScope returns the scope of p: SHA-256 over length-prefixed ("scope/1", namespace, issuer, tenant, client,
// subject), absent fields empty.
func (s Scoping) PrincipalScope(p Principal) store.Scope {
	return store.Scope(digest.Fields("scope/1", s.Namespace, p.Issuer, p.Tenant, s.client(p), p.Subject))
}

// PrincipalRealm returns the realm of p: SHA-256 over length-prefixed ("namespace/1", namespace), 8 bytes of it, and
// ("realm/1", namespace, issuer, tenant), 16 bytes. An empty tenant is a tenant.
func (s Scoping) PrincipalRealm(p Principal) store.Realm { return s.realm(s.service(), p) }

// realm is PrincipalRealm, with the hash of the service.
func (s Scoping) realm(service []byte, p Principal) (r store.Realm) {
	hash := digest.Fields("realm/1", s.Namespace, p.Issuer, p.Tenant)
	copy(r[copy(r[:], service):], hash[:])
	return r
}

// service is the beginning of all realms of the namespace.
func (s Scoping) service() []byte {
	hash := digest.Fields("namespace/1", s.Namespace)
	return hash[:8:8] // an append copies it
}

// client is the client of p if it counts, otherwise "".
func (s Scoping) client(p Principal) string {
	if s.RequireClient {
		return p.Client
	}
	return ""
}

// admits reports whether p has everything that is required.
func (s Scoping) admits(p Principal) bool { return s.lacks(p) == nil }

// What a principal can lack. The client gets only a 401 (O-7).
var (
	errNoPrincipal = errors.New("idem: there is no principal, or one whose issuer, tenant or subject stands for nobody")
	errNoTenant    = errors.New("idem: the principal has no tenant, and Config.Scoping requires one")
	errNoClient    = errors.New("idem: the principal has no client, and Config.Scoping requires one")
)

// lacks returns an error that says what p lacks; nil if it lacks nothing.
func (s Scoping) lacks(p Principal) error {
	switch {
	case !p.Valid():
		return errNoPrincipal
	case s.RequireTenant && p.Tenant == "":
		return errNoTenant
	case s.RequireClient && isUnsetID(p.Client):
		return errNoClient
	}
	return nil
}

// unauthenticated refuses a caller of an operation that is not admitted, and tells the observer why (O-7).
func (m *Module) unauthenticated(r *http.Request, p Principal, detail string) *Problem {
	m.observe(r.Context(), Event{Kind: EventRefused, Method: r.Method, Code: CodeUnauthenticated, Err: m.cfg.Scoping.lacks(p)})
	return NewProblem(CodeUnauthenticated, detail)
}

// fingerprint describes in words the settings of Scoping, without the namespace. A change of any of them would free keys.
func (s Scoping) fingerprint() string {
	tenant, client := "optional", "ignored"
	if s.RequireTenant {
		tenant = "required"
	}
	if s.RequireClient {
		client = "required"
	}
	return recordIDVersion + ", tenant " + tenant + ", client " + client
}

// ErrScoping is the error of a module whose store has records that were made under another [Scoping].
var ErrScoping = errors.New("idem: Config.Scoping is not what the store's records were made under")

// CheckScoping compares Config.Scoping with the Scoping that the store's records were made under (S-4). Call it at
// start-up. The module also does it once, before its first claim. If they differ, every key would be free again, so the
// module refuses every request, and Run returns the error.
//
// Errors: [ErrScoping]; any other error means that the store did not answer. It returns nil if the store is not a
// [store.Settings].
func (m *Module) CheckScoping(ctx context.Context) error {
	keeper, ok := m.cfg.Store.(store.Settings)
	if !ok || m.scoped.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.ClaimTimeout)
	defer cancel()
	select { // only one asks: many first requests at once would fill the store's pool with the same question
	case m.asking <- struct{}{}:
		defer func() { <-m.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.scoped.Load() {
		return nil
	}
	own := m.cfg.Scoping
	kept, err := keeper.KeepScoping(ctx, own.Namespace, own.fingerprint())
	switch {
	case err != nil:
		return err
	case kept == "":
		return fmt.Errorf("%w: they are of other namespaces than %q; put Namespace back, or say that this service is a new "+
			"one: call AdoptScoping once", ErrScoping, own.Namespace)
	case kept != own.fingerprint():
		return fmt.Errorf("%w: those of namespace %q were made under %q, and this is %q; put Config.Scoping back, or, if all "+
			"keys may become free, call AdoptScoping once", ErrScoping, own.Namespace, kept, own.fingerprint())
	}
	m.scoped.Store(true)
	return nil
}

// AdoptScoping stores Config.Scoping as the one that applies from now on. It is for an operator, if the store's records
// were made under another Scoping, or if this is a new service in tables that other services use. A repeat of an old
// command runs again if its caller has another scope now, and an erasure no longer finds the old records. So call it
// by hand, after all old instances have stopped, and never at each start. An error means that the store did not answer.
func (m *Module) AdoptScoping(ctx context.Context) error {
	keeper, ok := m.cfg.Store.(store.Settings)
	if !ok {
		return nil
	}
	return keeper.AdoptScoping(ctx, m.cfg.Scoping.Namespace, m.cfg.Scoping.fingerprint())
}

// sameScoping is CheckScoping as a gate.
func (m *Module) sameScoping(r *http.Request, q *request) *Reply {
	problem := m.checkScoping(r, q.pattern)
	if problem == nil {
		return nil
	}
	m.observe(r.Context(), q.refused(problem.Code))
	return m.refuse(r, problem)
}

// checkScoping is CheckScoping for a request.
func (m *Module) checkScoping(r *http.Request, pattern string) *Problem {
	err := m.CheckScoping(r.Context())
	if err == nil {
		return nil
	}
	m.storeFailed(r.Context(), Event{Method: r.Method, Route: pattern}, err)
	if errors.Is(err, ErrScoping) {
		return NewProblem(CodeMisconfigured, "this service says otherwise than before what belongs to the scope of a key; "+
			"nothing was run")
	}
	return m.unavailable(err)
}

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
	return !isUnsetID(p.Issuer) && !isUnsetID(p.Subject) && (p.Tenant == "" || !isUnsetID(p.Tenant))
}

// isUnsetID reports whether an id is empty, or what an unset one prints as: zeros (a number, a UUID, an ObjectID, in
// whatever form and behind whatever prefix of its own), a nil, a null, or fmt's mark of a wrong verb.
func isUnsetID(id string) bool {
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

// Name is the name of p in the history of settlements: issuer, tenant and subject. Each is quoted, so that two principals
// never have one name, whatever spaces and quotes are in them, and because the history cannot store every control character
// that a token may have.
func (p Principal) Name() string {
	name := "issuer=" + strconv.Quote(p.Issuer)
	if p.Tenant != "" {
		name += " tenant=" + strconv.Quote(p.Tenant)
	}
	return name + " subject=" + strconv.Quote(p.Subject)
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

// checkRoles returns an error for a role without a name, which no caller has, and for one without an issuer, which any
// issuer could give.
func checkRoles(field string, roles []IssuerRole) error {
	for _, r := range roles {
		switch {
		case r.Role == "":
			return fmt.Errorf("%s: an empty role would never match; remove it", field)
		case isUnsetID(r.Issuer):
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
