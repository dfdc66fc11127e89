package core

import (
	"context"
	"fmt"

	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// Reference attaches a reference to the operation whose attempt ctx belongs to: the id of a charge, the number of an order,
// an amount. Operators find the operation by its value, and see it in lists. The same reference again changes nothing. A
// command without references costs nothing more.
//
// Outside a transaction the reference is durable when Reference returns, whatever becomes of the attempt: call it as soon as
// the provider has told its id. With the context of a transaction of the store, as in a Rollback handler, it commits with
// the rows, or not at all.
//
// It is deleted with the answer: at the end of retention, and by an erasure. It is in no log and no event. Do not put a
// secret into it.
//
// Errors: the name or the value is empty, too long, or no plain text; [store.ErrReferences]; [ErrStale] if the operation is
// gone; the handler has returned. Any other error means that the store did not answer, and the reference may be missing.
// Outside an attempt, in shadow, and in a unit test, nothing is kept.
func Reference(ctx context.Context, name, value string) error {
	if !text.Typed(name, store.MaxReferenceName) || !text.Typed(value, store.MaxReferenceValue) {
		return fmt.Errorf("idem: Reference: want a name of 1 to %d bytes and a value of 1 to %d, both plain text without "+
			"space around it", store.MaxReferenceName, store.MaxReferenceValue) // not the texts: errors are logged
	}
	a := attemptFrom(ctx)
	if a == nil {
		return nil
	}
	if err := a.inside.Calls.Over(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.m.cfg.ClaimTimeout)
	defer cancel()
	a.m.refNames.Note(name)
	realm := a.m.cfg.Scoping.realm(a.m.service, a.req.principal)
	return a.m.operations.Refer(ctx, a.ticket.ID, realm, store.Ref{Name: name, Value: value})
}
