package store

import (
	"context"
	"errors"
)

// The limits of references.
const (
	MaxReferences     = 16  // of an operation
	MaxReferenceName  = 64  // bytes
	MaxReferenceValue = 255 // bytes
)

// ErrReferences means that an operation has [MaxReferences] references already. The new one was not kept.
var ErrReferences = errors.New("idem: the operation has as many references as it can have")

// Ref is a reference of an operation: what people outside know it by. See core.Reference.
type Ref struct {
	Name  string // "charge"
	Value string // "ch_3Nk9"
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
