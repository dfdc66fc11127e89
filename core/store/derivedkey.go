package store

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/auth19/idem/core/internal/digest"
)

// DerivedKey is the idempotency key of a handler's call to a payment provider, or of an event that the handler publishes.
// It is derived from an origin and a name, so it is the same in every attempt and every delivery. The origin is the
// operation, or the message that an inbox processes: see core.Origin.
//
//	what                                    in the handler            elsewhere, a reconciler for instance
//	a provider step                         the argument of Call      operation.DeriveStep(step)
//	a call outside a step                   DeriveCall(ctx, name)     operation.DeriveCall(name)
//	a call of core/idemclient in a step     DeriveCall(ctx, name)     operation.DeriveStep(step).DeriveCall(name)
//	an event                                DeriveEvent(ctx, name)    operation.DeriveEvent(name)
//
// Things of different kinds never share a key, even if they have the same name. Two calls, or two events, of one handler
// need two names.
type DerivedKey [sha256.Size]byte

// The layout of derived keys is frozen: providers know these keys.
const (
	callDomain  = "call/1"
	stepDomain  = "step/1"
	eventPrefix = "event/" // an event is a call of this name
)

// DeriveStep returns the key that core.Call hands to the provider step of the given name.
func (id ID) DeriveStep(step string) DerivedKey { return derive(stepDomain, id, step) }

// DeriveCall returns the key of the call of the given name that the handler makes outside a step.
func (id ID) DeriveCall(name string) DerivedKey { return derive(callDomain, id, name) }

// DeriveEvent returns the key of the event of the given name.
func (id ID) DeriveEvent(name string) DerivedKey { return id.DeriveCall(eventPrefix + name) }

// DeriveCall returns the key of a call that is made inside the provider step whose key k is.
func (k DerivedKey) DeriveCall(name string) DerivedKey { return ID(k).DeriveCall(name) }

func derive(domain string, origin ID, name string) DerivedKey {
	return DerivedKey(digest.Fields(domain, string(origin[:]), name))
}

// String returns the key as 64 hex digits. Some providers take only shorter keys: see UUID.
func (k DerivedKey) String() string { return hex.EncodeToString(k[:]) }

// UUID returns the key as a UUID of 36 characters, version 8 (RFC 9562, section 5.8).
func (k DerivedKey) UUID() string {
	u := [16]byte(k[:16])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
