package core

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Scoping says what belongs to the scope of a key beside issuer, tenant and subject (S-4). It is stated once, before the
// first request: a change gives every caller another scope, and so frees all its keys. That is why the store keeps it,
// and a module that states it otherwise is refused: see [Module.AdoptScoping].
type Scoping struct {
	// Namespace names the service. Two services that share a table have different ones. Default "".
	Namespace string
	// RequireTenant: a caller without a tenant is refused with 401. A tenant that is there counts in any case.
	RequireTenant bool
	// RequireClient: a caller without a client ("azp" or "client_id") is refused with 401, and the client counts: two
	// clients of one subject never meet. Default: the client does not count.
	RequireClient bool
}

// recordIDVersion is part of every record id. The layout is frozen (K-6): a change would free every key in use.
const recordIDVersion = "idem/1"

// timeLen is how much of an id is the time of a key that is a UUIDv7: 48 bits (K-9).
const timeLen = 6

// RecordID returns the id of the record for principal p and key in a module whose Scoping is zero; [Module.RecordID]
// knows any other. The key is the unquoted one.
//
// It is SHA-256 over length-prefixed (version, namespace, issuer, tenant, client, subject, key), absent fields empty
// (K-6). Where the key is a UUIDv7, of either letter case, the first 48 bits are replaced by those of the key, its time
// (K-9). The case of a key counts all the same: only its time is read from it.
func RecordID(p Principal, key string) ID { return Scoping{}.recordID(p, key) }

// RecordID returns the id of the record for principal p and key: see the function [RecordID].
func (m *Module) RecordID(p Principal, key string) ID { return m.cfg.Scoping.recordID(p, key) }

func (s Scoping) recordID(p Principal, key string) ID {
	id := ID(hashFields(recordIDVersion, s.Namespace, p.Issuer, p.Tenant, s.client(p), p.Subject, key))
	if isUUIDv7(key) {
		// Cannot fail: these are hex digits.
		_, _ = hex.Decode(id[:4], []byte(key[:8]))
		_, _ = hex.Decode(id[4:timeLen], []byte(key[9:13]))
	}
	return id
}

// Scope identifies a principal in a record without naming it: who may ask for the operation (M-7).
type Scope [sha256.Size]byte

// PrincipalScope returns the scope of p in a module whose Scoping is zero; [Module.PrincipalScope] knows any other. It is
// SHA-256 over length-prefixed ("scope/1", namespace, issuer, tenant, client, subject), absent fields empty.
func PrincipalScope(p Principal) Scope { return Scoping{}.scope(p) }

// PrincipalScope returns the scope of p: see the function [PrincipalScope].
func (m *Module) PrincipalScope(p Principal) Scope { return m.cfg.Scoping.scope(p) }

func (s Scoping) scope(p Principal) Scope {
	return Scope(hashFields("scope/1", s.Namespace, p.Issuer, p.Tenant, s.client(p), p.Subject))
}

// Realm identifies in a record what its principal is one of many in: namespace, issuer and tenant. Operators see what is
// of their own realm (S-5).
type Realm [16]byte

// realm is the first half of SHA-256 over length-prefixed ("realm/1", namespace, issuer, tenant). An empty tenant is a
// tenant.
func (s Scoping) realm(p Principal) Realm {
	hash := hashFields("realm/1", s.Namespace, p.Issuer, p.Tenant)
	return Realm(hash[:len(Realm{})])
}

// client is the client of p where it counts.
func (s Scoping) client(p Principal) string {
	if s.RequireClient {
		return p.Client
	}
	return ""
}

// admits reports whether p names somebody, with all that is required.
func (s Scoping) admits(p Principal) bool {
	return p.Valid() && (p.Tenant != "" || !s.RequireTenant) && (p.Client != "" || !s.RequireClient)
}

// hashFields is SHA-256 over the fields, each behind its length, so that no two lists of fields collide.
func hashFields(fields ...string) [sha256.Size]byte {
	buf := make([]byte, 0, 512) // a constant, to stay off the heap in the common case
	for _, f := range fields {
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(f)))
		buf = append(buf, f...)
	}
	return sha256.Sum256(buf)
}
