package idemclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/auth19/idem/core/intents"
)

// The defaults of [Config].
const (
	DefaultMaxAttempts    = 10 // about a minute of pauses: as long as an attempt on the server may run
	DefaultMaxElapsed     = 5 * time.Minute
	DefaultAttemptTimeout = 75 * time.Second // a server of this library answers within 60 s, and 10 s to record
	DefaultFirstPause     = 200 * time.Millisecond
	DefaultMaxPause       = 15 * time.Second
	DefaultMaxRetryAfter  = time.Minute
	DefaultMaxAnswer      = 8 << 20
)

// Config says how a [Client] sends. The zero value is ready.
type Config struct {
	// Transport sends one attempt, default [http.DefaultTransport]. It must not follow redirects, and must not retry.
	// net/http does retry, with the same key, if a reused connection breaks, and over HTTP/2 if the server refuses or resets
	// the request; then the outcome counts as uncertain. A transport that wraps another one must pass the request's context
	// on, because otherwise the client does not notice such a retry.
	Transport http.RoundTripper
	// Provider says how the server takes keys, default [Standard].
	Provider Provider
	// Authorize is called before each attempt with the copy of the request that will be sent. It may set headers, such as a
	// fresh token, which does not change the key. It may sign the request, which already has the key. An error ends the
	// call. Optional.
	Authorize func(*http.Request) error
	// Journal keeps the keys of intents; that of gormstore/journal keeps them in the app's database. Without a journal,
	// each client keeps its keys in memory (see [intents.NewMemoryJournal]), and they are lost with the process. Then a
	// command that was being sent gets a new key when it is sent again, and may be carried out twice. The same happens to
	// a command that has ended, if its intent comes again after 10,000 others.
	Journal intents.Journal
	// CallerEnds: Do does not end intents in the journal. The caller does, if [Result].Ends, in the transaction of the rows
	// that keep the command's outcome (Done of gormstore/journal, C-6). If the process is killed in between, the intent is
	// still pending afterwards, and the caller repeats it to learn the answer. An intent that has ended is not sent again:
	// [ErrEnded]. It needs a Journal, whose clients must all have the same CallerEnds.
	CallerEnds bool
	// Direct says that nothing between this client and the service sends a request twice: no proxy or load balancer that
	// repeats, and no mesh (Istio repeats a 503 unless it is told not to). The default is false: an answer may then be to a
	// second delivery, and 425, 429, store_unavailable, rolled_back and body_unreadable do not say what the first one has
	// done, so that the outcome is uncertain after them (C-8).
	Direct bool
	// Observe is called after each attempt, in the goroutine of the call. It must be quick. Optional.
	Observe func(context.Context, Try)

	MaxAttempts    int           // of one call, the first included; default 10
	MaxElapsed     time.Duration // of one call with its pauses, default 5 min; the caller's deadline counts, too
	AttemptTimeout time.Duration // of one attempt, including reading its answer; default 75 s
	FirstPause     time.Duration // the first pause, ± a half; each is twice as long as the one before; default 200 ms
	MaxPause       time.Duration // the longest pause, ± a half, unless Retry-After asks for more; default 15 s
	MaxRetryAfter  time.Duration // a longer Retry-After ends the call at once; default 1 min
	MaxAnswer      int64         // the largest body of an answer, in bytes; it is read into memory; default 8 MiB
	// MaxBuffer is the largest request body, in bytes, that is read into memory because the request has no GetBody. The
	// default is 0: such a request is refused with [ErrNotRewindable].
	MaxBuffer int64
}

// withDefaults returns c with defaults in place of zeros.
func (c Config) withDefaults() Config {
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	if c.Provider.isZero() {
		c.Provider = Standard()
	}
	if c.Journal == nil {
		c.Journal = intents.NewMemoryJournal()
	}
	c.MaxAttempts = cmp.Or(c.MaxAttempts, DefaultMaxAttempts)
	c.MaxElapsed = cmp.Or(c.MaxElapsed, DefaultMaxElapsed)
	c.AttemptTimeout = cmp.Or(c.AttemptTimeout, DefaultAttemptTimeout)
	c.FirstPause = cmp.Or(c.FirstPause, DefaultFirstPause)
	c.MaxPause = cmp.Or(c.MaxPause, DefaultMaxPause)
	c.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, DefaultMaxRetryAfter)
	c.MaxAnswer = cmp.Or(c.MaxAnswer, DefaultMaxAnswer)
	return c
}

// validate names everything that is wrong.
func (c Config) validate() error {
	var errs []error
	positive := func(field string, is bool, value any) {
		if !is {
			errs = append(errs, fmt.Errorf("idem: idemclient.Config.%s is %v; it must be above 0", field, value))
		}
	}
	positive("MaxAttempts", c.MaxAttempts > 0, c.MaxAttempts)
	positive("MaxElapsed", c.MaxElapsed > 0, c.MaxElapsed)
	positive("AttemptTimeout", c.AttemptTimeout > 0, c.AttemptTimeout)
	positive("FirstPause", c.FirstPause > 0, c.FirstPause)
	positive("MaxRetryAfter", c.MaxRetryAfter > 0, c.MaxRetryAfter)
	positive("MaxAnswer", c.MaxAnswer > 0, c.MaxAnswer)
	if c.MaxPause < c.FirstPause {
		errs = append(errs, fmt.Errorf("idem: idemclient.Config.MaxPause is %v, below FirstPause (%v)", c.MaxPause,
			c.FirstPause))
	}
	if _, memory := c.Journal.(*intents.MemoryJournal); memory && c.CallerEnds {
		errs = append(errs, errors.New("idem: idemclient.Config.CallerEnds needs a Journal in which the caller can end "+
			"intents: journal.New"))
	}
	if c.MaxBuffer < 0 {
		errs = append(errs, fmt.Errorf("idem: idemclient.Config.MaxBuffer is %d; 0 buffers nothing", c.MaxBuffer))
	}
	if err := c.Provider.validate(); err != nil {
		errs = append(errs, err)
	} else if c.Provider.Lifetime <= c.AttemptTimeout {
		errs = append(errs, fmt.Errorf("idem: idemclient.Config.Provider.Lifetime is %v, no longer than one attempt "+
			"(AttemptTimeout %v): a repeat might be a second command", c.Provider.Lifetime, c.AttemptTimeout))
	}
	return errors.Join(errs...)
}
