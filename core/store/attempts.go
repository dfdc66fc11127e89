package store

import (
	"context"
	"time"
)

// Attempts is a Store that runs attempts as rows of segments. A segment is one transaction on the app's database, and
// nothing commits but in front of something that leaves: a call, or the answer. A Rollback attempt has one segment, and a
// Resume attempt one more than it has calls. A policy can ask for Resume only on such a store.
type Attempts interface {
	Store

	// Rows reports whether the store runs the handler's rows in the segment's transaction, so that they commit with the seal or
	// are undone. Only then can a policy ask for Rollback. It never changes, and waits for nothing.
	Rows() bool

	// Begin claims by the rules of [Store.Claim], for a Rollback or a Resume attempt: see Claim.Recovery. The first attempt
	// of a command writes nothing that others see: its record is written with the first Seal. Until then the key is held:
	// others are told Busy, and InFlight. A Resume operation that is continued is taken over at once, and that is durable
	// when Begin returns: its Record.Attempts is above 1.
	//
	// The Attempt is nil unless the claim was won. After an error nothing of the claim is left, unless Record.Owner is the
	// claim's: then the operation may have been taken over, and the caller calls End with fence 0 and Free. ctx bounds only the
	// claim.
	Begin(ctx context.Context, c Claim) (Attempt, Claimed, error)

	// Steps returns the steps of a record in the order in which they were started; steps of the same time are sorted by
	// name. If the key was free in between, it returns only the steps since then. Call it when the record is owned.
	Steps(ctx context.Context, id ID) ([]StepRecord, error)

	// InFlight reports whether a running attempt holds the key, although its record is not visible yet. It claims nothing,
	// and makes no claim Busy.
	InFlight(ctx context.Context, id ID) (bool, error)
}

// Nodes is a store whose servers may share no lock (M-6).
type Nodes interface {
	// Apart reports whether an attempt on another server is not seen before its first commit: InFlight does not tell it, and it
	// may run beside one here. One of them commits.
	Apart(ctx context.Context) (bool, error)
}

// Attempt is one execution of a handler: its segments, one after the other. At most one is open. The first one is open when
// Begin returns, unless the operation was taken over. Each holds the key from its begin to its end, so that no other attempt
// takes the operation over meanwhile, whatever the lease says: a claim is told the record, or Busy.
type Attempt interface {
	// Bind returns the context in which the handler finds the open segment. ctx ends with the attempt. Call it at most once,
	// before Step and Seal. opening is called before a Step, or a statement of the handler, opens a segment behind the first
	// Seal; nil: nothing is called. After an error of opening no segment is opened, and the error is returned. Seal does not
	// call opening.
	Bind(ctx context.Context, opening func() error) context.Context

	// Step runs work in the open segment; it opens one if there is none. Only in the context of work may the handler of a
	// Resume attempt write. That of a Rollback attempt writes in the context of Bind. If work fails, or a statement in it has
	// failed, Step returns an error, and the segment must not be sealed except Alone. A store without Rows only runs
	// work.
	Step(ctx context.Context, work func(ctx context.Context) error) error

	// Seal makes durable what s says, in one commit with the open segment, and ends it. Without an open segment it opens one
	// for itself. It returns the store's clock. ctx bounds only how long Seal waits: COMMIT itself is never cancelled.
	//
	// ErrRetryable and ErrAborted: the segment was certainly rolled back. ErrStale: it was certainly rolled back, because
	// another attempt has the key, or has had it, or the operation was settled. ErrUnconfirmed: the outcome is not known.
	// ErrEnded: the handler has ended the transaction, and the record is made unknown. ErrClock: the attempt would continue,
	// and the store's clock is outside of s.Window; nothing was written (T-5). A first segment that was not sealed ends the
	// attempt, and leaves the key free; but an answer may still be sealed Alone after ErrAborted. ErrUnsealed without
	// ErrRetryable, of a Resume attempt: nothing was sent, the segment is as it was, and another Answer can be sealed.
	//
	// It works after the lease has expired. In state Unknown an answer may be sealed, and the results of calls Alone:
	// whoever settles the operation has to know them. An answer that is sealed again with the same ticket is nil, and keeps
	// the first one. A step that is finished again keeps its first result, and one that is started again its fence and its
	// start. A start of a step that has finished is ErrStale, and so is a step whose Fence in the Seal is 0, and which another
	// attempt has started or finished. Lease, creation and deadline of the record are those of the statement that
	// writes them.
	Seal(ctx context.Context, s Seal) (now time.Time, err error)

	// Rollback undoes the open segment. If nothing was sealed, the attempt is over, and the key is free: Step and Seal return
	// ErrStale. Otherwise the next Step or Seal opens another segment; steps that wrote rows in the one that was undone must
	// not be sealed any more, and are ErrRetryable or ErrAborted. Rollback may be called at any time, by any goroutine, more
	// than once. It returns ErrRetryable if a statement of the handler has failed with an error that a repeat may solve;
	// ErrStale, ErrEnded and ErrUnconfirmed as Seal does.
	Rollback() error

	// Statements says what is known of the handler's statements so far, or of those until the segment ended. A store without
	// Rows returns the zero value.
	Statements() Statements
}

// Statements is what the statements of a handler have done in the open or the last segment.
type Statements struct {
	// Wrote: the segment was given a statement that may write, or a settlement. In doubt it is true: of a call of an unknown
	// function for instance. A savepoint, a setting and a lock write nothing. A Rollback handler that succeeds without a
	// write has written its rows elsewhere, or has written none.
	Wrote bool
	// Failed names the first error that the database has given to a statement: "SQLSTATE class 42", "SQLite error 19". What a
	// ROLLBACK TO has undone is none. It never holds the error's text, which may quote values. "": none. A handler can answer
	// 4xx to any error.
	Failed string
}

// Seal is what becomes durable together, in one commit: one segment of an attempt.
type Seal struct {
	Steps  []StepRecord // that have finished since the last seal, in their order
	Start  *StepRecord  // the provider step that is called next; nil: none
	Answer *Completion  // the end of the attempt; nil: the attempt continues, and its lease begins anew
	Window Window       // what the store's clock may show, if the attempt continues (T-5)

	// Alone: the open segment's rows are undone first. Steps has no database step then.
	Alone bool
}
