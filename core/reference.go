package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of references.
const (
	MaxReferences     = 16  // of an operation
	MaxReferenceName  = 64  // bytes
	MaxReferenceValue = 255 // bytes
)

// ErrReferences means that an operation has [MaxReferences] references already. The new one was not kept.
var ErrReferences = errors.New("idem: the operation has as many references as it can have")

// Ref is a reference of an operation: what people outside know it by. See [Reference].
type Ref struct {
	Name  string // "charge"
	Value string // "ch_3Nk9"
}

// Reference attaches a reference to the operation whose attempt ctx belongs to: the id of a charge, the number of an order,
// an amount. Operators find the operation by its value, and see it in lists. The same reference again changes nothing. A
// command without references costs nothing more.
//
// Outside a transaction the reference is durable when Reference returns, whatever becomes of the attempt: call it as soon as
// the provider has told its id. With the context of a transaction of the store, as in a Rollback handler, it commits with
// the rows, or not at all.
//
// It is deleted with the answer: at the end of retention, and by [Module.Erase]. It is in no log and no event. Do not put a
// secret into it.
//
// Errors: the name or the value is empty, too long, or no plain text; [ErrReferences]; [errors.ErrUnsupported] if the store
// is no [Referrer]; [ErrStale] if the operation is gone; the handler has returned. Any other error means that the store did
// not answer, and the reference may be missing. Outside an attempt, in shadow, and in a unit test, nothing is kept.
func Reference(ctx context.Context, name, value string) error {
	if !isReferenceText(name, MaxReferenceName) || !isReferenceText(value, MaxReferenceValue) {
		return fmt.Errorf("idem: Reference: want a name of 1 to %d bytes and a value of 1 to %d, both plain text without "+
			"space around it", MaxReferenceName, MaxReferenceValue) // not the texts: errors are logged
	}
	a := attemptFrom(ctx)
	if a == nil {
		return nil
	}
	if err := a.inside.Calls.Over(); err != nil {
		return err
	}
	store, ok := a.m.cfg.Store.(Referrer)
	if !ok {
		return fmt.Errorf("idem: Reference: %T is no core.Referrer: %w", a.m.cfg.Store, errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, a.m.cfg.ClaimTimeout)
	defer cancel()
	return store.Refer(ctx, a.ticket.ID, a.m.cfg.Scoping.realm(a.m.service, a.admission.principal), Ref{name, value})
}

// isReferenceText reports whether s can be a name or a value: a person types it into a form.
func isReferenceText(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Referrer is a Store that keeps references of operations.
type Referrer interface {
	Store

	// Refer attaches a reference to an operation of a realm. The same reference again changes nothing. If ctx has an open
	// transaction of this store, the reference commits with it. Otherwise it is durable when Refer returns. ErrReferences if
	// the operation has MaxReferences others; ErrStale if it has no record, unless its transaction is still open.
	//
	// A reference stays until its record becomes a tombstone, is erased, or is dropped. It may stay while its key is free, and
	// during the next operation of that key.
	Refer(ctx context.Context, id ID, realm Realm, ref Ref) error

	// References returns the references of operations, those of each in the order in which they were attached.
	References(ctx context.Context, ids []ID) (map[ID][]Ref, error)

	// Referred returns up to limit operations whose realm begins with within and which have a reference of this value, the
	// one that was attached last first.
	Referred(ctx context.Context, within []byte, value string, limit int) ([]ID, error)
}
