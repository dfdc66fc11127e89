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
// outside one. No call has the key of a step, that of [core.StepKey]: not even the one that has the step's name (C-5).
// For a call of an inbox handler, operation is what stands for the message: gormstore.MessageKey.
func DeriveKey(operation core.ID, step, name string) core.DerivedKey {
	if step == "" {
		return core.DeriveKey(operation, name)
	}
	return inStep(core.DeriveStepKey(operation, step), name)
}

// inStep derives the key of a call from that of its step.
func inStep(step core.DerivedKey, name string) core.DerivedKey {
	return core.DeriveKey(core.ID(step), name)
}

// derive returns the key of a call that a handler makes (C-3, Q-4). It is an error once the attempt is over: a key that
// nobody asks for again is none (C-5).
func derive(ctx context.Context, calls *attemptctx.Calls, name string) (core.DerivedKey, error) {
	if over := calls.Over(); over != nil {
		return core.DerivedKey{}, over
	}
	if step, ok := core.StepKey(ctx); ok {
		return inStep(step, name), nil
	}
	return core.DeriveKey(calls.Origin, name), nil
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
