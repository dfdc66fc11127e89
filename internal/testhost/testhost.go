// Package testhost lets commands use what was made for tests: servers, apps and clean-ups that take a [testing.TB].
package testhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
)

// Run calls body with a [testing.TB] that is not of a test, and then what was given to its Cleanup. The error holds all
// that failed. Errorf and Fatalf work as in a test, Logf prints on the standard error, Context ends with ctx or when
// body does. What no command has needed yet (Setenv and the like) is missing, and panics.
func Run(ctx context.Context, name string, body func(t testing.TB)) error {
	h := &host{name: name}
	h.ctx, h.cancel = context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // FailNow ends a goroutine
		defer close(ended)
		defer h.cleanUp()
		defer h.cancel()
		body(h)
	}()
	<-ended
	return errors.Join(h.errs...)
}

// host is the part of [testing.TB] that a command needs.
type host struct {
	testing.TB
	name   string
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	cleanups []func()
	errs     []error
}

// cleanUp calls the clean-ups, the last first, all of them whatever they do.
func (h *host) cleanUp() {
	h.mu.Lock()
	last := len(h.cleanups) - 1
	if last < 0 {
		h.mu.Unlock()
		return
	}
	cleanup := h.cleanups[last]
	h.cleanups = h.cleanups[:last]
	h.mu.Unlock()
	defer h.cleanUp()
	cleanup()
}

func (h *host) fail(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, errors.New(text))
}

// Cleanup implements [testing.TB].
func (h *host) Cleanup(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, fn)
}

// Context implements [testing.TB].
func (h *host) Context() context.Context { return h.ctx }

// Error implements [testing.TB].
func (h *host) Error(args ...any) { h.fail(fmt.Sprint(args...)) }

// Errorf implements [testing.TB].
func (h *host) Errorf(format string, args ...any) { h.fail(fmt.Sprintf(format, args...)) }

// Failed implements [testing.TB].
func (h *host) Failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.errs) > 0
}

// FailNow implements [testing.TB].
func (h *host) FailNow() {
	if !h.Failed() {
		h.fail(h.name + " has failed")
	}
	runtime.Goexit()
}

// Fatal implements [testing.TB].
func (h *host) Fatal(args ...any) {
	h.Error(args...)
	h.FailNow()
}

// Fatalf implements [testing.TB].
func (h *host) Fatalf(format string, args ...any) {
	h.Errorf(format, args...)
	h.FailNow()
}

// Skipf implements [testing.TB]: what a command needs is there, or the command fails.
func (h *host) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

// Helper implements [testing.TB].
func (h *host) Helper() {}

// Log implements [testing.TB].
func (h *host) Log(args ...any) { _, _ = fmt.Fprintln(os.Stderr, args...) }

// Logf implements [testing.TB].
func (h *host) Logf(format string, args ...any) { _, _ = fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Name implements [testing.TB].
func (h *host) Name() string { return h.name }

// TempDir implements [testing.TB]: a folder that goes with Run.
func (h *host) TempDir() string {
	folder, err := os.MkdirTemp("", "idem-"+h.name+"-")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}
