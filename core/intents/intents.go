// Package intents keeps the keys of a caller of money commands: one key for each intent, also after a restart of the
// caller. It does not use HTTP. core/idemclient sends commands with these keys, and gormstore/journal keeps
// them in a database.
//
// An intent is the caller's own name for something that must happen once, "order-7/pay" for instance.
package intents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/auth19/idem/core/internal/attemptctx"
)

// maxIntent is the longest name of an intent, in bytes.
const maxIntent = 255

// ErrNoIntent means that a money command has no intent, or inside a guarded handler no name (C-1, C-3).
var ErrNoIntent = errors.New("idem: a money command needs an intent")

// Check returns what is wrong with the name of an intent: [ErrNoIntent], or nil.
func Check(intent string) error {
	switch {
	case intent == "":
		return fmt.Errorf("%w; name what is to happen once: Do(ctx, \"order-7/pay\", req), or WithIntent on the request's "+
			"context", ErrNoIntent)
	case len(intent) > maxIntent:
		return fmt.Errorf("%w: its name has %d bytes, %d are allowed", ErrNoIntent, len(intent), maxIntent)
	case !utf8.ValidString(intent) || strings.ContainsFunc(intent, unicode.IsControl):
		return fmt.Errorf("%w: its name must be text without control characters", ErrNoIntent)
	}
	return nil
}

// Planned is for journals that put an intent into the caller's transaction, before its command is sent: it checks the
// name, and where ctx is a guarded handler's it notes that the handler has planned it. A call of that name, made before
// the transaction has committed, is then refused, and does not go under a derived key (C-5). The error is [ErrNoIntent].
func Planned(ctx context.Context, intent string) error {
	err := Check(intent)
	if calls := attemptctx.CallsFrom(ctx); calls != nil && err == nil {
		calls.Plan(intent)
	}
	return err
}
