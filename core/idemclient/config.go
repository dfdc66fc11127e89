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
	DefaultMaxAttempts    = 10 // about a minute of pauses: as long as a server of this library may be in flight
	DefaultMaxElapsed     = 5 * time.Minute
	DefaultAttemptTimeout = 75 * time.Second // a server of this library answers within 60 s, and 10 s to record
	DefaultFirstPause     = 200 * time.Millisecond
	DefaultMaxPause       = 15 * time.Second
	DefaultMaxRetryAfter  = time.Minute
	DefaultMaxAnswer      = 8 << 20
)

// Config says how a [Client] sends. The zero value is ready.
type Config struct {
	// Transport sends one attempt, default [http.DefaultTransport]. It must not follow redirects nor retry on its own.
	// net/http does where a connection breaks that was used before: under the same key, and the outcome is uncertain then.
	// One that wraps another must pass the request's context on, or the client does not see it.
	Transport http.RoundTripper
	// Provider says how the other side takes keys, default [Standard].
	Provider Provider
	// Authorize is called for each attempt with a copy of the request, just before it is sent, and may set headers on it: a
	// fresh token does not change the key. It may sign what is there, the key included. An error ends the call. Optional.
	Authorize func(*http.Request) error
	// Journal keeps the keys of intents. Without one they are kept in memory, each client its own (see
	// [intents.NewMemoryJournal]), and are lost with the process: a command that was under way is then sent again under a
	// new key, and is carried out twice. So is a command that has ended, if its intent comes again after 10,000 others have.
	Journal intents.Journal
	// CallerEnds says that Do does not end intents in the journal: the caller does, in the transaction of the rows that say
	// what came of the command (gormstore.Journal.Done, C-6). A process that is killed in between finds the intent pending,
	// and repeats it to learn the answer. It needs a Journal.
	CallerEnds bool
	// Observe is told of each attempt, after it, from the goroutine of the call. It must be quick. Optional.
	Observe func(context.Context, Try)

	MaxAttempts    int           // of one call, the first included; default 10
	MaxElapsed     time.Duration // of one call with its pauses; default 5 min. The caller's deadline counts too
	AttemptTimeout time.Duration // of one attempt, its answer read; default 75 s
	FirstPause     time.Duration // the first pause, ± a half; each is twice as long as the one before; default 200 ms
	MaxPause       time.Duration // the longest pause, ± a half, unless Retry-After asks for more; default 15 s
	MaxRetryAfter  time.Duration // a Retry-After above it is not waited for: the call ends at once; default 1 min
	MaxAnswer      int64         // the largest answer in bytes of body, which is read into memory; default 8 MiB
	// MaxBuffer is the largest body, in bytes, that is read into memory because it cannot be rewound (its request has no
	// GetBody). The default is 0: such a request is refused, [ErrNotRewindable].
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
			"intents: gormstore.NewJournal"))
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
