package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// The kinds of derived keys are made apart, so that a step and a call of one name never share one (C-5). Their layout is
// frozen: providers know these keys.
const (
	callDomain = "call/1"
	stepDomain = "step/1"
)

// DerivedKey is the key that a guarded handler sends along with a call of its own, to a payment provider for
// instance. It is derived from the record and the name of the call, and so the same in every attempt.
type DerivedKey [sha256.Size]byte

// ProviderKey returns the key for the call of the given name in the attempt that ctx belongs to; false outside an
// attempt. Two different calls of one handler need two names.
func ProviderKey(ctx context.Context, name string) (DerivedKey, bool) {
	operation, ok := Operation(ctx)
	if !ok {
		return DerivedKey{}, false
	}
	return DeriveKey(operation, name), true
}

// DeriveKey returns the key that ProviderKey gives to the handler of an operation, for the reconciler that asks the
// provider about it.
func DeriveKey(operation ID, name string) DerivedKey {
	return DerivedKey(hashFields(callDomain, string(operation[:]), name))
}

// DeriveStepKey returns the key that [StepKey] gives to the provider step of an operation, for the reconciler that asks
// the provider about it.
func DeriveStepKey(operation ID, step string) DerivedKey {
	return DerivedKey(hashFields(stepDomain, string(operation[:]), step))
}

// String returns the key as 64 hex digits, the longest form that providers take.
func (k DerivedKey) String() string { return hex.EncodeToString(k[:]) }

// UUID returns the key as a UUID of 36 characters, version 8 (RFC 9562, section 5.8).
func (k DerivedKey) UUID() string {
	u := [16]byte(k[:16])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
