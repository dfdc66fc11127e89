package store

import (
	"context"
	"time"
)

// Stepper is a Store that runs Resume attempts. A policy can ask for Resume only on such a store.
type Stepper interface {
	Store

	// Resume claims by the rules of [Store.Claim], for a Resume attempt. The first attempt of a command writes nothing: its
	// record is written with the first Seal, and until then the key is held as by Transactor.Begin. An operation that is
	// continued is taken over at once, and that is durable when Resume returns: its Record.Attempts is above 1.
	//
	// The Segments are nil unless the claim was won. After an error nothing of the claim is left, unless Record.Owner is the
	// claim's: then the operation may have been taken over, and the caller calls Release with fence 0.
	Resume(ctx context.Context, c Claim) (Segments, Claimed, error)

	// InFlight is that of [Transactor].
	InFlight(ctx context.Context, id ID) (bool, error)

	// Steps returns the steps of a record in the order in which they were started; steps of the same time are sorted by
	// name. If the key was free in between, it returns only the steps since then.
	Steps(ctx context.Context, id ID) ([]StepRecord, error)
}

// Segments are the transactions of a Resume attempt, one after the other. At most one is open. Each holds the key
// from its begin to its end, so that no other attempt takes the operation over meanwhile, whatever the lease says: a
// claim is told the record, or Busy.
//
// Seal ends the open segment; without one it opens one for itself. It works after the lease has expired, and an answer
// may be sealed in state Unknown. A step that is finished again keeps its first result, and one that is started again its
// fence and its start; a start of a step that has finished is ErrStale, and so is a step whose Fence in the Seal is 0, and
// which another attempt has started or finished. The record's lease, creation and deadline are those
// of the statement that writes them. If the attempt continues, Seal returns the store's clock; ErrClock if that is outside
// of the seal's Window: then nothing was written (T-5).
//
// Rollback undoes the open segment. Steps that wrote rows in it must not be sealed any more: ErrRetryable or ErrAborted. The
// next Step or Seal opens another segment, unless nothing was sealed before: then the key is free, and both return ErrStale.
type Segments interface {
	Tx

	// Opening sets what the store calls before a Step, or a statement of the handler, opens a segment behind the first Seal.
	// After an error of fn no segment is opened, and the error is returned. Seal does not call fn. Call Opening before anything
	// else.
	Opening(fn func() error)

	// Step runs work in the open segment; it opens one if there is none. ctx ends with the attempt. In the context of work
	// handlers may write. If work fails, or a statement in it has failed, Step returns an error, and the segment must not be
	// sealed except Alone. A store without transactions only runs work.
	Step(ctx context.Context, work func(ctx context.Context) error) error
}

// StepKind says what a step does: it writes rows, or it calls a provider.
type StepKind uint8

// The kinds of steps.
const (
	DatabaseStep StepKind = iota + 1 // rows, which commit together with the step
	ProviderStep                     // a call to a provider
)

// String returns "database step" or "provider step".
func (k StepKind) String() string {
	switch k {
	case DatabaseStep:
		return "database step"
	case ProviderStep:
		return "provider step"
	}
	return "step of no kind"
}

// StepRecord is the record of a step in a [Stepper].
type StepRecord struct {
	Name     string // unique within the operation
	Kind     StepKind
	Finished bool
	Result   []byte // JSON; set once it is finished
	// Derived are the keys of the calls and events that the handler made during this step. They are set when the step has
	// finished. A later attempt does not run the step again, and must not use the same keys for something else.
	Derived []DerivedKey

	Fence      int64     // of the attempt that started it first; in a Seal 0 if the attempt has found no record of it
	StartedAt  time.Time // when that was recorded, by the store's clock
	FinishedAt time.Time // when its result was recorded, by the store's clock; zero while it is unfinished
	Now        time.Time // the store's clock when this was read
}
