package core

import "github.com/auth19/idem/core/store"

// What an app needs of package store. A store's author, and a suite, use that package itself.
type (
	// Store keeps the records: gormstore, or memstore for tests and single processes.
	Store = store.Store
	// Record is one row of the store as it was read, with the store's clock at that moment.
	Record = store.Record
	// Answer is a recorded answer: what the client saw.
	Answer = store.Answer
	// ID is the id of a record, and of its operation: a hash of principal and key. See [Scoping.RecordID].
	ID = store.ID
	// DerivedKey is the idempotency key of a handler's call to a payment provider, or of an event that the handler
	// publishes. It is the same in every attempt and every delivery.
	DerivedKey = store.DerivedKey
	// Recovery says what happens after an attempt that failed or was cut off (contract X).
	Recovery = store.Recovery
)

// The recoveries. The zero value is not a recovery: money safety has no default (O-5).
const (
	// Rollback is for handlers that only write rows of the app's own database, through the attempt's transaction. The rows
	// and the recorded answer commit together. If they cannot, the rows are undone.
	Rollback = store.Rollback
	// Resume is for handlers made of named steps: database steps and provider calls. The next repeat continues after the
	// last finished step.
	Resume = store.Resume
	// Park is for all other handlers. After an attempt that failed or was cut off, the operation is unknown and does not run
	// again. A reconciler or an operator settles it.
	Park = store.Park
)

// Errors of a store that handlers and operators can get; compare them with [errors.Is]. Package store has the others.
var (
	// ErrStale: the record has a higher fence, another owner, or was settled. Nothing was written.
	ErrStale = store.ErrStale
	// ErrNotFound: there is no such record.
	ErrNotFound = store.ErrNotFound
	// ErrRetryable: the transaction was rolled back and may be run again unchanged.
	ErrRetryable = store.ErrRetryable
	// ErrAborted: the transaction was rolled back because one of its statements, or its COMMIT, failed with an error that a
	// repeat does not solve.
	ErrAborted = store.ErrAborted
	// ErrUnconfirmed: it is not known yet whether COMMIT took effect.
	ErrUnconfirmed = store.ErrUnconfirmed
	// ErrClock: the store's clock and the app's are too far apart to tell what has expired. Nothing was changed (T-5).
	ErrClock = store.ErrClock
)

// ParseID reads an operation id, 64 hex digits of either case. Any other text is an error.
func ParseID(s string) (ID, error) { return store.ParseID(s) }
