package core

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

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
	errNobody   = errors.New("idem: there is no principal, or one whose issuer, tenant or subject stands for nobody")
	errNoTenant = errors.New("idem: the principal has no tenant, and Config.Scoping requires one")
	errNoClient = errors.New("idem: the principal has no client, and Config.Scoping requires one")
)

// lacks returns an error that says what p lacks; nil if it lacks nothing.
func (s Scoping) lacks(p Principal) error {
	switch {
	case !p.Valid():
		return errNobody
	case s.RequireTenant && p.Tenant == "":
		return errNoTenant
	case s.RequireClient && isNobody(p.Client):
		return errNoClient
	}
	return nil
}

// unauthenticated refuses a principal that is not admitted, and tells the observer why (O-7). v is the zero visit if
// there is no guarded route.
func (m *Module) unauthenticated(r *http.Request, v visit, p Principal, detail string) *Problem {
	m.observe(r.Context(), Event{Kind: EventRefused, Method: r.Method, Route: v.pattern, Recovery: v.recovery(),
		Code: CodeUnauthenticated, Err: m.cfg.Scoping.lacks(p)})
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
// command runs again if its caller has another scope now, and [Module.Erase] no longer finds the old records. So call it
// by hand, after all old instances have stopped, and never at each start. An error means that the store did not answer.
func (m *Module) AdoptScoping(ctx context.Context) error {
	keeper, ok := m.cfg.Store.(store.Settings)
	if !ok {
		return nil
	}
	return keeper.AdoptScoping(ctx, m.cfg.Scoping.Namespace, m.cfg.Scoping.fingerprint())
}

// checkScoping is CheckScoping for a request.
func (m *Module) checkScoping(r *http.Request, pattern string) *Problem {
	err := m.CheckScoping(r.Context())
	if err == nil {
		return nil
	}
	m.observe(r.Context(), Event{Kind: EventFailed, Method: r.Method, Route: pattern, Err: err})
	if errors.Is(err, ErrScoping) {
		return NewProblem(CodeMisconfigured, "this service says otherwise than before what belongs to the scope of a key; "+
			"nothing was run")
	}
	return m.unavailable(err)
}
