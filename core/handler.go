package core

import (
	"context"

	"github.com/auth19/idem/core/internal/attemptctx"
	"github.com/auth19/idem/core/store"
)

// Operation returns the id of the operation whose attempt ctx belongs to; false outside an attempt. Store it in each
// money row (D-1).
func Operation(ctx context.Context) (ID, bool) {
	if a := attemptctx.From(ctx); a != nil {
		return a.Operation, true
	}
	return ID{}, false
}

// CommandHashOf returns the hash of the command whose attempt ctx belongs to. In the handler of an inbox it is the SHA-256
// of the message's payload, with version 0. It is false outside both. Store it in each money row beside the id of [Origin],
// because a key that became free again may come back with another command (D-3).
func CommandHashOf(ctx context.Context) (store.CommandHash, bool) {
	if calls := attemptctx.CallsFrom(ctx); calls != nil {
		return store.CommandHash(calls.Command), true
	}
	return store.CommandHash{}, false
}

// RecoveryOf returns the recovery of the attempt that ctx belongs to; false outside an attempt, and in a unit test.
func RecoveryOf(ctx context.Context) (Recovery, bool) {
	if a := attemptFrom(ctx); a != nil {
		return a.route.Recovery, true
	}
	return 0, false
}

// NotApplied declares that this attempt has changed nothing anywhere, and will not change anything. With a 4xx or 5xx
// answer the key is then free again. The declaration does not count with a 2xx or 3xx answer. On a Resume route it
// does not count either after a provider step was started or a database step has finished, in this attempt or an earlier
// one: the answer is judged as if NotApplied had not been called. Outside an attempt it does nothing.
func NotApplied(ctx context.Context) {
	if a := attemptctx.From(ctx); a != nil {
		a.NotApplied.Store(true)
	}
}

// Failed declares that the attempt has failed, whatever the status of its answer. It is for apps that answer every
// failure with 200 and a code in the body, for GraphQL and for JSON-RPC: only the handler can tell such an answer from a
// success. The attempt ends as with a 5xx: Rollback undoes the rows and frees the key, a Resume operation continues with the
// next repeat, and with Park the outcome is unknown. The answer is not recorded, and goes to the client as it is. Outside an
// attempt it does nothing.
func Failed(ctx context.Context) {
	if a := attemptctx.From(ctx); a != nil {
		a.Failed.Store(true)
	}
}

// KeepRows keeps the rows of a Rollback attempt even if its answer is a 4xx: a counter of failed tries, for instance.
// Every 4xx is then recorded for the full retention, also 401, 403 and 429, unless NotApplied was called. It
// works on a Resume route before the first commit, too; elsewhere it does nothing.
func KeepRows(ctx context.Context) {
	if a := attemptctx.From(ctx); a != nil {
		a.KeepRows.Store(true)
	}
}

// CutShort declares that the handler of ctx has got less than it asked for: it reads on in rows that the store has closed
// . Its attempt does not record an answer then, and no later step or call of it begins. It is for packages that
// implement a store, as gormstore does. It returns false outside an attempt.
func CutShort(ctx context.Context, err error) bool {
	a := attemptFrom(ctx)
	if a == nil {
		return false
	}
	if a.ctx.Err() == nil { // else the deadline has closed them
		a.cut.CompareAndSwap(nil, &err)
		if a.steps != nil {
			a.steps.cutShort(err)
		}
	}
	return true
}

// WriteRefused sends [EventWriteRefused] for the attempt that ctx belongs to, once; outside an attempt it does nothing. It
// is for packages that refuse statements of a handler, as gormstore does. err must not have values of the statement.
func WriteRefused(ctx context.Context, err error) {
	if a := attemptFrom(ctx); a != nil && a.writeRefused.CompareAndSwap(false, true) {
		a.observe(Event{Kind: EventWriteRefused, Err: err})
	}
}
