package idemclient

import (
	"context"
	"net/http"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/internal/attemptctx"
)

// Client sends money commands. It is safe for use by any number of goroutines.
//
// It is also an [http.RoundTripper], for code that already has an [http.Client]. Put the intent into the request's
// context ([WithIntent]), and let the http.Client's CheckRedirect return [http.ErrUseLastResponse]. Unlike other
// transports, it reads answers, may send several times, and returns an [*Error] for an answer that does not answer the
// command.
type Client struct {
	cfg    Config
	header string // canonical; "" for a provider that wants the key in the body
}

var _ http.RoundTripper = (*Client)(nil)

// New returns a client. The error names everything that is wrong with the configuration.
func New(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, header: http.CanonicalHeaderKey(cfg.Provider.Header)}, nil
}

// Do sends the command r until there is an answer, as long as attempts, time and ctx allow, always with the key of the
// intent (C-1, C-2). It does not change r, and uses ctx instead of the context of r. Each attempt sends the same body. Do
// closes the body.
//
// The answer is a 2xx, a 3xx (redirects are never followed) or a 4xx that a repeat would not change. Its body is in
// memory; [ResultOf] tells whether it is a replay. If an earlier attempt may have carried the command out, only an answer
// that the server marks as the command's own counts (C-4). An answer without any mark of this library counts only if the
// profile says so ([Provider].Definite, C-7). Otherwise Do returns an [*Error]: compare it with [ErrGivenUp],
// [ErrStillUncertain], [ErrOutcomeUnknown] and the other errors of this package. A request with a safe
// method is sent once, unchanged, and needs no intent.
func (c *Client) Do(ctx context.Context, intent string, r *http.Request) (*http.Response, error) {
	if attemptctx.CallsFrom(ctx) == nil && attemptctx.CallsFrom(r.Context()) != nil {
		closeBody(r)
		return nil, &Error{Intent: intent, Reason: errWrongContext, Uncertain: true} // an earlier attempt may have had it
	}
	return c.RoundTrip(r.WithContext(WithIntent(ctx, intent)))
}

// RoundTrip implements [http.RoundTripper]: it is Do with the intent of the request's context.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	intent := intentFrom(r.Context())
	if after := redirectOf(r); after != nil {
		closeBody(r)
		return nil, &Error{Intent: intent, Reason: ErrRedirected, Attempts: 1, Uncertain: true, Status: after.StatusCode,
			Response: after}
	}
	if isSafe(r.Method) {
		return c.cfg.Transport.RoundTrip(r)
	}
	defer closeBody(r)
	k, err := c.prepare(r, intent)
	if err != nil {
		return nil, err
	}
	return k.send()
}

// Key returns the key that Do sends for an intent. Use it for a provider that wants the key in the body
// ([Provider].Member), and to ask the provider about the intent. Key sends nothing. Errors: [intents.ErrNoIntent]; those
// of the journal.
func (c *Client) Key(ctx context.Context, intent string) (string, error) {
	if err := intents.Check(intent); err != nil {
		return "", &Error{Intent: intent, Reason: err}
	}
	if calls := attemptctx.CallsFrom(ctx); calls != nil {
		planned, err := c.inJournal(ctx, calls, intent)
		if err != nil {
			return "", err
		}
		if !planned {
			derived, err := core.DeriveCall(ctx, intent)
			if err != nil {
				return "", &Error{Intent: intent, Reason: err, Uncertain: mayHaveCalled(ctx, calls, intent)}
			}
			return derived.UUID(), nil
		}
	}
	entry, err := c.begin(ctx, intents.Entry{Intent: intent})
	return entry.Key, err
}

// isSafe reports whether a method asks for no change (RFC 9110, section 9.2.1; K-8).
func isSafe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// redirectOf returns the answer to a money command that an http.Client has followed with r. Otherwise r would send a
// command to another address, or a GET whose answer would look like the command's own.
func redirectOf(r *http.Request) *http.Response {
	for res := r.Response; res != nil && res.Request != nil; res = res.Request.Response {
		if !isSafe(res.Request.Method) {
			return res
		}
	}
	return nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // was read, or never will be
	}
}
