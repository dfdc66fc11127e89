package idemclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

var (
	errElapsed = fmt.Errorf("idem: Config.MaxElapsed has passed: %w", context.DeadlineExceeded)
	errSlow    = fmt.Errorf("idem: no whole answer within Config.AttemptTimeout: %w", context.DeadlineExceeded)
)

// send makes attempts until there is an answer, or until another attempt cannot help (C-2).
func (k *call) send() (*http.Response, error) {
	cfg := &k.client.cfg
	ctx, cancel := context.WithTimeoutCause(k.request.Context(), cfg.MaxElapsed, errElapsed)
	defer cancel()
	pauses := &backoff.ExponentialBackOff{
		InitialInterval: cfg.FirstPause, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: cfg.MaxPause,
	}
	for {
		if err := k.tooOld(); err != nil {
			return nil, err
		}
		k.attempts++
		a, failure := k.attempt(ctx)
		o := k.judge(a, failure)
		if a != nil {
			Result{Attempts: k.attempts, Replayed: a.replayed, Ends: o.ends, Existing: a.existing}.bear(a.response, k.request)
		}
		if !o.again {
			return k.finish(ctx, a, o)
		}
		pause := k.pause(ctx, a, pauses.NextBackOff())
		k.observe(ctx, a, ended(ctx, o.cause), pause)
		if pause == 0 || !sleep(ctx, pause) {
			return nil, k.fail(a, ErrGivenUp, ended(ctx, o.cause))
		}
	}
}

// pause is how long to wait before the next attempt; 0 if there is none.
func (k *call) pause(ctx context.Context, a *answer, pause time.Duration) time.Duration {
	cfg := &k.client.cfg
	asked := a.wait()
	if asked > 0 {
		pause = max(pause, asked+rand.N(cfg.FirstPause)) // so that the clients do not all come back at once
	}
	deadline, _ := ctx.Deadline()
	if ctx.Err() != nil || k.attempts == cfg.MaxAttempts || asked > cfg.MaxRetryAfter || time.Until(deadline) <= pause {
		return 0
	}
	return max(1, pause)
}

// tooOld refuses an attempt that might arrive after the lifetime of the key.
func (k *call) tooOld() error {
	cfg := &k.client.cfg
	if !k.journaled || k.age+time.Since(k.begun)+cfg.AttemptTimeout <= cfg.Provider.Lifetime {
		return nil
	}
	return k.fail(nil, ErrTooOld, nil)
}

// attempt sends the command once and reads the whole answer. An answer that breaks off does not count.
func (k *call) attempt(ctx context.Context) (*answer, error) {
	cfg := &k.client.cfg
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.AttemptTimeout, errSlow)
	defer cancel()
	var p progress
	r, err := k.copy(httptrace.WithClientTrace(ctx, p.trace()), &p)
	if err != nil {
		return nil, &unsent{err, false}
	}
	res, err := cfg.Transport.RoundTrip(r)
	k.uncertain = k.uncertain || p.twice.Load()
	if err == nil {
		var a *answer
		if a, err = cfg.readAnswer(res); err == nil {
			return a, nil
		}
	}
	err = ended(ctx, err)
	if p.neverConnected(r, cfg.Transport) {
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
		return nil, &unsent{err, !untrusted}
	}
	return nil, err
}

// copy makes the request of one attempt.
func (k *call) copy(ctx context.Context, p *progress) (*http.Request, error) {
	r := k.request.Clone(ctx)
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, int64(len(k.body))
	if len(k.body) > 0 {
		r.GetBody = func() (io.ReadCloser, error) { return &watched{bytes.NewReader(k.body), p}, nil }
		r.Body, _ = r.GetBody()
	}
	name := k.client.header
	if name != "" {
		r.Header[name] = []string{k.key}
	}
	if k.client.cfg.Authorize == nil {
		return r, nil
	}
	if err := k.client.cfg.Authorize(r); err != nil {
		return nil, fmt.Errorf("idem: Authorize: %w", err)
	}
	if name != "" && !slices.Equal(r.Header[name], []string{k.key}) {
		return nil, fmt.Errorf("%w: Authorize has changed it", ErrOtherKey)
	}
	return r, nil
}

// progress is how far an attempt has come, as its transport reports.
type progress struct{ dialed, connected, wrote, twice, read atomic.Bool }

// trace also notes when net/http sends the command twice by itself. Over HTTP/1 it does if a reused connection breaks,
// because the request has an Idempotency-Key; over HTTP/2 if the server refuses the request, or resets it for a protocol
// error. It does not tell which it was, and the server may have carried out the first one (C-4).
func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { p.dialed.Store(true) },
		GotConn: func(httptrace.GotConnInfo) {
			p.connected.Store(true)
			if p.wrote.Load() {
				p.twice.Store(true)
			}
		},
		WroteHeaders: func() { p.wrote.Store(true) },
	}
}

// neverConnected reports that there was no connection for the request. A transport that is not net/http's may use several
// networks, and report on one of them: its report counts if it has not read the body.
func (p *progress) neverConnected(r *http.Request, by http.RoundTripper) bool {
	_, plain := by.(*http.Transport)
	return p.dialed.Load() && !p.connected.Load() && !p.read.Load() && (plain || r.ContentLength > 0)
}

// watched is the body of an attempt. It records that it was read.
type watched struct {
	from *bytes.Reader
	by   *progress
}

// Read implements [io.Reader].
func (w *watched) Read(p []byte) (int, error) {
	w.by.read.Store(true)
	return w.from.Read(p)
}

// Close implements [io.Closer].
func (w *watched) Close() error { return nil }

// unsent is the error of an attempt that has not reached the server.
type unsent struct {
	error
	again bool
}

func (u *unsent) Unwrap() error { return u.error }

// ended adds the reason why a context has ended, if it has, to the error from before.
func ended(ctx context.Context, before error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil || errors.Is(before, cause):
		return before
	case before == nil:
		return cause
	}
	return fmt.Errorf("%w; before: %w", cause, before)
}

func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// finish returns the answer or error of the call, which no further attempt would change. It ends the intent in the
// journal if there is a definite answer.
func (k *call) finish(ctx context.Context, a *answer, o outcome) (*http.Response, error) {
	failed := o.cause
	if o.ends && k.journaled && !k.client.cfg.CallerEnds {
		// An error of the journal does not replace the answer: if the intent stays pending, the caller repeats it and gets a
		// replay.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalPatience)
		defer cancel()
		if err := k.client.cfg.Journal.End(ctx, k.intent); err != nil && failed == nil {
			failed = fmt.Errorf("idem: the journal did not take the end of the intent: %w", err)
		}
	}
	k.observe(ctx, a, failed, 0)
	if o.reason != nil || a == nil {
		return nil, k.fail(a, o.reason, o.cause)
	}
	return a.response, nil
}

// fail makes the error of the call; a is the last answer, nil if there was none. Before it says that nothing was carried
// out, it asks whether another caller has come meanwhile (C-8).
func (k *call) fail(a *answer, reason, cause error) *Error {
	answered := []error{ErrKeyExpired, ErrNotReplayable, ErrAnswerTooLarge}
	if k.attempts > 0 && k.journaled && !k.uncertain && !slices.Contains(answered, reason) {
		k.uncertain = !k.alone()
	}
	e := &Error{Intent: k.intent, Reason: reason, Cause: cause, Attempts: k.attempts, Uncertain: k.uncertain}
	if a != nil {
		e.Status, e.Code, e.Operation, e.Outcome = a.response.StatusCode, a.code, a.operation, a.outcome
		e.RetryAfter, e.Response = a.retryAfter, a.response
	}
	return e
}

func (k *call) observe(ctx context.Context, a *answer, err error, pause time.Duration) {
	if k.client.cfg.Observe == nil {
		return
	}
	told := Try{Intent: k.intent, Number: k.attempts, Err: err, Retry: pause > 0, Pause: pause}
	if a != nil {
		told.Status, told.Code, told.Replayed = a.response.StatusCode, a.code, a.replayed
	}
	k.client.cfg.Observe(ctx, told)
}
