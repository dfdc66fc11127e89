// Package idemtest is for unit tests of handlers and of what they call. It needs no HTTP, no store and no claim of a key.
//
//	ctx := idemtest.Context(t.Context(), idemtest.Config{Principal: customer})
//	ctx = authctx.NewContext(ctx, customer) // if the handler asks who calls
//	ctx = gormstore.WithTx(ctx, tx)         // if it writes through the attempt's transaction
//
//	payment, err := shop.Pay(ctx, ...)
//
//	require.True(t, idemtest.Declared(ctx).NotApplied)
//
// What the guards and the interceptor do with a handler is tested over HTTP: see contracttest. So is what an attempt finds
// at its end: a step whose error was swallowed, a recorded step that was left out, a step in a handler that is not Resume,
// and a call of a Resume handler outside core.Call (contract X-17).
package idemtest

import (
	"cmp"
	"context"
	"crypto/sha256"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/attemptctx"
)

// Config describes the attempt of a test. Attempts with the same principal and key belong to one operation: they have the
// same operation id and the same provider keys, as a repeat has.
type Config struct {
	// Principal owns the operation. Default: issuer "https://issuer.example" and subject "customer-1". [Context] does not put
	// it into the context. In an app the JWT guard does that, and in a test authctx.NewContext.
	Principal core.Principal
	// Key is the idempotency key, default "key-1".
	Key string
	// Command stands for the request: equal texts are equal commands. Default "command-1". The same key with another
	// Command is a key that became free and came back with another request (contract D-3).
	Command string
	// Again says that there was an earlier attempt. Nobody knows which calls it has made, so the outcome of each call is
	// uncertain until there is an answer to it (contract C-5).
	Again bool
	// Steps keeps the steps of the operation. If several attempts share it, a later attempt continues where the earlier one
	// stopped. With nil the attempt begins with the first step.
	Steps *Steps
}

// Steps keeps the steps of an operation from one attempt to the next, as a store does: what a core.Call or a core.Checkpoint
// has made durable, and the results of calls. What a handler wrote behind the last of them is undone with an attempt that
// fails, so that the next attempt writes it again. The zero value is ready for use. It does not keep that a provider step
// has begun: after one that failed the next attempt calls again, with core.Dedup or without.
type Steps struct{ kept attemptctx.Rehearsal }

// Context returns a context like that of a handler in an attempt. In it core.Operation, core.CommandHashOf,
// core.DeriveCall, core.NotApplied, core.Failed and core.KeepRows work as in an attempt. It ends with ctx, and has no
// other deadline.
//
// The steps of a Resume handler run in it, too. core.Call runs once for each Steps, with its key, and its result passes
// through JSON. gormstore.Step runs in the transaction of gormstore.WithTx.
func Context(ctx context.Context, a Config) context.Context {
	if !a.Principal.Valid() {
		a.Principal = core.Principal{Issuer: "https://issuer.example", Subject: "customer-1"}
	}
	if a.Steps == nil {
		a.Steps = &Steps{}
	}
	operation := core.Scoping{}.RecordID(a.Principal, cmp.Or(a.Key, "key-1"))
	return &attemptctx.View{
		Context:   ctx,
		Rehearsal: &a.Steps.kept,
		Operation: operation,
		Calls: attemptctx.Calls{Origin: operation, Again: a.Again,
			Command: attemptctx.Command{Version: 1, Sum: sha256.Sum256([]byte(cmp.Or(a.Command, "command-1")))}},
	}
}

// Declarations are what a handler has declared about its attempt.
type Declarations struct {
	// NotApplied: core.NotApplied was called. With a 4xx or 5xx answer the key would be free again, unless a call has begun
	// before, or a step has finished: then an attempt does not believe it, and a unit test cannot tell.
	NotApplied bool
	KeepRows   bool // core.KeepRows was called: with a 4xx answer the rows would be kept
	Failed     bool // core.Failed was called: whatever the answer is, it would not be recorded
}

// Declared returns what has been declared so far in ctx, or in a context derived from it. It panics if ctx does not come
// from [Context], because a test that asks the wrong context would pass for the wrong reason.
func Declared(ctx context.Context) Declarations {
	a := attemptctx.From(ctx)
	if a == nil {
		panic("idem: idemtest.Declared: this context does not come from idemtest.Context")
	}
	return Declarations{NotApplied: a.NotApplied.Load(), KeepRows: a.KeepRows.Load(), Failed: a.Failed.Load()}
}
