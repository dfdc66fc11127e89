// Package web is shared by the handlers of both example apps: it reads a JSON body, and turns an error into a problem.
package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/gormstore"
)

// ProblemType is the content type of a [Problem].
const ProblemType = "application/problem+json"

// Problem is the body of every refusal (RFC 9457).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"` // stable: clients may switch on it
}

// NewProblem returns a problem.
func NewProblem(status int, code, detail string) Problem {
	return Problem{
		Type: "tag:auth19.dev,2026:example/" + code, Title: http.StatusText(status), Status: status, Detail: detail, Code: code,
	}
}

// problems are the problems for the errors that handlers may get.
var problems = []struct {
	err    error
	status int
	code   string
}{
	{errMalformed, http.StatusBadRequest, "malformed"},
	{errTooLarge, http.StatusRequestEntityTooLarge, "body_too_large"},
	{errMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type"},
	{shop.ErrNotFound, http.StatusNotFound, "not_found"},
	{shop.ErrDeclined, http.StatusPaymentRequired, "declined"},
	{shop.ErrOutOfStock, http.StatusConflict, "out_of_stock"},
	{shop.ErrAlreadyCancelled, http.StatusConflict, "already_cancelled"},
	{shop.ErrInsufficientFunds, http.StatusConflict, "insufficient_funds"},
	{shop.ErrRefundTooHigh, http.StatusConflict, "refund_exceeds_payment"},
	{gormstore.ErrOtherOperation, http.StatusConflict, "other_operation"},
	{shop.ErrNoAnswer, http.StatusBadGateway, "no_answer"},
	{shop.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
	{shop.ErrInterrupted, http.StatusServiceUnavailable, "interrupted"},
	{shop.ErrSimulated, http.StatusInternalServerError, "simulated"},
}

// interruptions are errors of an attempt that was cut off, and of its steps: a repeat continues.
var interruptions = []error{
	core.ErrLeaseLost, core.ErrStale, core.ErrRetryable, core.ErrUnconfirmed, context.Canceled, context.DeadlineExceeded,
}

// ProblemOf returns the problem for an error. An unknown error is only logged, because the caller must not see its text.
func ProblemOf(err error) Problem {
	if invalid, ok := errors.AsType[*shop.InvalidError](err); ok {
		return NewProblem(http.StatusUnprocessableEntity, "invalid", invalid.Error())
	}
	for _, known := range problems {
		if errors.Is(err, known.err) {
			return NewProblem(known.status, known.code, err.Error())
		}
	}
	slog.Error("a request failed", "error", err)
	if slices.ContainsFunc(interruptions, func(known error) bool { return errors.Is(err, known) }) {
		return NewProblem(http.StatusServiceUnavailable, "interrupted", "the command was interrupted; repeat it with the same key")
	}
	if database.IsUnavailable(err) {
		return NewProblem(http.StatusServiceUnavailable, "database_unavailable", "the database does not answer now; repeat later")
	}
	return NewProblem(http.StatusInternalServerError, "internal", "something went wrong; it is in the log")
}

// ProblemOfStatus returns the problem for a status that a router answers with.
func ProblemOfStatus(status int) Problem {
	switch status {
	case http.StatusNotFound:
		return NewProblem(status, "not_found", "there is no such address")
	case http.StatusMethodNotAllowed:
		return NewProblem(status, "method_not_allowed", "this address does not take that method")
	}
	return NewProblem(http.StatusInternalServerError, "internal", "something went wrong; it is in the log")
}
