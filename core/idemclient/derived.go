package idemclient

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/attemptctx"
)

var errWrongContext = errors.New("idem: the request was made with a guarded handler's context and is sent with another; " +
	"pass the handler's context to Do, its key is derived from it")

// DeriveKey returns the key under which the handler of an operation makes the call of the given name, for the reconciler
// that asks the provider about it: what was sent is its UUID form. step is the provider step that makes the call, ""
// outside one. A call with the name of its step has the step's own key, that of [core.StepKey].
func DeriveKey(operation core.ID, step, name string) core.DerivedKey {
	if step == "" || step == name {
		return core.DeriveKey(operation, name)
	}
	return inStep(core.DeriveKey(operation, step), name)
}

// inStep derives the key of a call from that of its step.
func inStep(step core.DerivedKey, name string) core.DerivedKey {
	return core.DeriveKey(core.ID(step), name)
}

// derive returns the key of a call that is made inside a guarded handler; false outside one (C-3).
func derive(ctx context.Context, name string) (core.DerivedKey, bool) {
	operation, inside := core.Operation(ctx)
	if !inside {
		return core.DerivedKey{}, false
	}
	own := core.DeriveKey(operation, name)
	if step, ok := core.StepKey(ctx); ok && step != own {
		return inStep(step, name), true
	}
	return own, true
}

// enterCall notes a call of the handler that ctx belongs to. It is false where there was the same one before.
func enterCall(ctx context.Context, key core.DerivedKey) bool {
	return attemptctx.From(ctx).Calls.Enter(key)
}

// newKey returns a random UUID, version 4 (RFC 9562, section 5.4).
func newKey() string {
	var u [16]byte
	rand.Read(u[:]) // never fails since Go 1.24
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
