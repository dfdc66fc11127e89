package idemclient

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/auth19/idem/core/internal/attemptctx"
)

// maxIntent is the longest name of an intent, in bytes.
const maxIntent = 255

type intentKey struct{}

// WithIntent returns a context in which a [Client] as an [http.RoundTripper] finds the intent of the request. It is for
// one command: another one needs another intent.
func WithIntent(ctx context.Context, intent string) context.Context {
	return context.WithValue(ctx, intentKey{}, intent)
}

func intentFrom(ctx context.Context) string {
	intent, _ := ctx.Value(intentKey{}).(string)
	return intent
}

// checkIntent says what is wrong with the name of an intent.
func checkIntent(intent string) error {
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
	err := checkIntent(intent)
	if calls := attemptctx.CallsFrom(ctx); calls != nil && err == nil {
		calls.Plan(intent)
	}
	return err
}
