package store

import (
	"context"
	"time"
)

// Note is what an operator has written on an operation: "I am on it", or that it is to be settled so. Who and when stay as
// long as the history does.
type Note struct {
	ID       ID       // of the operation
	Token    [16]byte // of the form that was sent: the same again changes nothing
	Who      string
	Text     string    // "": it has gone with the answer
	At       time.Time // by the store's clock; Annotate and Proposals ignore it
	Kind     NoteKind  // Annotate ignores it, and Fence and Decision
	Fence    int64     // of a proposal or a withdrawal: of the record that it is about
	Decision []byte    // of a proposal: what is to be done, in core's form; nil: it has gone with the answer, or cannot be read
}

// NoteKind says what a note is.
type NoteKind int16

// The kinds of notes. A proposal is open until it is carried out or withdrawn.
const (
	PlainNote      NoteKind = iota
	OpenProposal            // a settlement that somebody has proposed
	CarriedOut              // a proposal that another one has carried out; the history says who
	Withdrawn               // a proposal that was withdrawn
	WithdrawalNote          // who has withdrawn a proposal, when, and why
)

// Proposals is a store whose settlements can be proposed by one and carried out by another: see Settlement.Proposal.
// [Operations].Notes returns proposals and withdrawals, too. core.New takes a policy with TwoToSettle only with such a
// store. If ctx has a transaction of this store, a method's change commits with it.
type Proposals interface {
	Operations

	// Propose adds n as an OpenProposal to an operation that could be settled now, and changes nothing of its record. The same
	// Token again changes nothing. Errors, in this order: ErrNotFound; ErrClock if the clock is outside of w; ErrNotSettleable;
	// ErrStale if the fence differs, or if there is an open proposal with this fence.
	Propose(ctx context.Context, n Note, w Window) error

	// Withdraw makes the open proposal with this token Withdrawn, and adds n as a WithdrawalNote, in one step. ErrStale if the
	// proposal is not open, is not about n.Fence, or if that is not the fence of an open operation any more. Of a withdrawal
	// and a settlement at once, one gets an error.
	Withdraw(ctx context.Context, token [16]byte, n Note) error
}
