package idemclient

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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

// NewEntry returns the entry of a new intent, with a key of its own: for journals that plan an intent before its command
// is sent. The error is [ErrNoIntent].
func NewEntry(intent string) (Entry, error) {
	if err := checkIntent(intent); err != nil {
		return Entry{}, err
	}
	return Entry{Intent: intent, Key: newKey()}, nil
}
