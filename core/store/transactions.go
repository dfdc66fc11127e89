package store

import (
	"context"
	"time"
)

// Transactor is a Store that can run a handler's statements in the claim's transaction. A policy can ask for Rollback only
// on such a store.
type Transactor interface {
	Store
	// Begin opens a transaction and claims in it, by the rules of Store.Claim. The Tx is nil unless the claim was won. After
	// an error, nothing of the claim is left. ctx bounds only the claim, not the transaction.
	Begin(ctx context.Context, c Claim) (Tx, Claimed, error)

	// InFlight reports whether a running attempt holds the key, although its record is not visible yet. It claims nothing,
	// and makes no claim Busy.
	InFlight(ctx context.Context, id ID) (bool, error)
}

// Tx is the transaction of a Rollback attempt. The attempt's record is visible to others only after Seal, and a store may
// write it only then.
type Tx interface {
	// Bind returns the context in which handlers find the transaction.
	Bind(ctx context.Context) context.Context

	// Seal makes durable what s says, and commits the open transaction; if s is Alone, the transaction is undone first. It
	// returns the store's clock. The transaction is over whatever Seal returns. ctx bounds only how long Seal waits: COMMIT
	// itself is never cancelled.
	//
	// ErrRetryable and ErrAborted: the transaction was certainly rolled back. ErrStale: it was certainly rolled back, because
	// another attempt has the key, or has had it, or the operation was settled. ErrUnconfirmed: the outcome is not known.
	// ErrEnded: the handler has ended the transaction, and the record is made unknown. An answer that is sealed again with
	// the same ticket is nil, and keeps the first one.
	Seal(ctx context.Context, s Seal) (now time.Time, err error)

	// Rollback undoes everything that is not sealed; the key is free if nothing was. It may be called at any time, by any
	// goroutine, more than once. It returns ErrRetryable if a statement of the handler has failed with an error that a repeat
	// may solve, and ErrStale and ErrEnded as Seal does.
	Rollback() error
}

// WrittenTx is a Tx that knows whether it has carried a write. A handler that succeeds without one has written its rows
// elsewhere, or has written none.
type WrittenTx interface {
	Tx
	// Wrote reports whether the transaction was given a statement of the handler that may write, or a settlement. In doubt a
	// statement may write, one that calls an unknown function for instance. A savepoint, a setting and a lock write nothing.
	Wrote() bool
}

// FailedTx is a Tx that knows whether a statement of its handler has failed: a handler can answer 4xx to any error.
type FailedTx interface {
	Tx
	// FailedWith names the first error that the database has given to a statement of the handler: "SQLSTATE class 42",
	// "SQLite error 19". What a ROLLBACK TO has undone is none. It never holds the error's text, which may quote values.
	// "": none.
	FailedWith() string
}

// Seal is what becomes durable together, in one commit: one segment of an attempt.
type Seal struct {
	Steps  []StepRecord // that have finished since the last seal, in their order
	Start  *StepRecord  // the provider step that is called next; nil: none
	Answer *Completion  // the end of the attempt; nil: the attempt continues, and its lease begins anew
	Window Window       // what the store's clock may show, if the attempt continues (T-5)

	// Alone: the open transaction's rows are undone first. Steps has no database step then.
	Alone bool
}
