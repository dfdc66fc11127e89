// Package idemtest is for unit tests of handlers and of what they call: without HTTP, without a store, without claims.
//
//	ctx := idemtest.Context(t.Context(), idemtest.Config{Principal: customer})
//	ctx = authctx.NewContext(ctx, customer)   // where the handler asks who calls
//	ctx = gormstore.WithTx(ctx, tx)     // where it writes through the attempt's transaction
//
//	payment, err := shop.Pay(ctx, ...)
//
//	require.True(t, idemtest.Declared(ctx).NotApplied)
//
// What the guards and the interceptor do with a handler is tested over HTTP: see contracttest.
package idemtest

import (
	"cmp"
	"context"
	"crypto/sha256"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/attemptctx"
)

// Config says which attempt a context stands for. Attempts of the same principal and key are attempts of the same
// operation: they have the same operation id and provider keys, as a repeat has them.
type Config struct {
	// Principal is whose operation it is, default issuer "https://issuer.example" and subject "customer-1". It is not
	// put into the context: that is the work of a JWT guard, and of authctx.NewContext in a test.
	Principal core.Principal
	// Key is the idempotency key, default "key-1".
	Key string
	// Command stands for the request: equal texts are equal commands. Default "command-1". The same key with another
	// Command is a key that became free and came back with another request (contract D-3).
	Command string
	// Again says that there was an attempt before: what it has called is not known, and so the outcome of each call is
	// uncertain until there is an answer to it (contract C-5).
	Again bool
	// Steps keeps the steps of the operation. Shared by several attempts it lets the later ones go on where the
	// earlier stopped; nil is an attempt that begins with the first step.
	Steps *Steps
}

// Steps keeps the steps of an operation from one attempt to the next, as a store does. The zero value is ready. When a
// provider step was begun is not kept: core.Dedup does nothing in a unit test.
type Steps struct{ kept attemptctx.Rehearsal }

// Context returns a context as a handler gets it inside the attempt: core.Operation, core.CommandHashOf, core.DeriveCall,
// core.NotApplied and core.KeepRows do in it what they do there. It ends with ctx, and not after a deadline of its own.
//
// The steps of a Resume handler run in it: core.Call with its key, once per Steps, the result through JSON;
// gormstore.Step in the transaction of gormstore.WithTx.
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
		Command:   attemptctx.Command{Version: 1, Sum: sha256.Sum256([]byte(cmp.Or(a.Command, "command-1")))},
		Calls:     attemptctx.Calls{Origin: operation, Again: a.Again},
	}
}

// Declarations are what a handler has declared about its attempt.
type Declarations struct {
	NotApplied bool // core.NotApplied was called: with a 4xx or 5xx answer the key would be free again
	KeepRows   bool // core.KeepRows was called: with a 4xx answer the rows would be kept
}

// Declared returns what was declared in ctx, or in a context made of it, by now. It panics where ctx does not come from
// [Context]: a test that asks the wrong context would pass for the wrong reason.
func Declared(ctx context.Context) Declarations {
	a := attemptctx.From(ctx)
	if a == nil {
		panic("idem: idemtest.Declared: this context does not come from idemtest.Context")
	}
	return Declarations{NotApplied: a.NotApplied.Load(), KeepRows: a.KeepRows.Load()}
}
