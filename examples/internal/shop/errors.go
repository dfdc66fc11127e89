package shop

import "errors"

// Errors that refuse a command. Each has a status and a code in package web.
var (
	ErrNotFound          = errors.New("the caller has no such order or payment")
	ErrOutOfStock        = errors.New("not enough pieces are left")
	ErrAlreadyCancelled  = errors.New("the order was cancelled before")
	ErrInsufficientFunds = errors.New("the balance is too low")
	ErrRefundTooHigh     = errors.New("refunds cannot exceed the captured amount")
	ErrDeclined          = errors.New("the payment was declined")
	ErrNoAnswer          = errors.New("the provider did not answer; it is not known whether money was moved")
	ErrUnavailable       = errors.New("payments are not available now; nothing was applied")
	ErrInterrupted       = errors.New("the command took too long")
	ErrSimulated         = errors.New("a simulated failure")
)

// InvalidError says which field of a command is wrong, and what it should be.
type InvalidError struct{ Field, Want string }

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + ": want " + e.Want }
