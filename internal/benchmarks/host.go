package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// host is what pgtest needs of a test, for a command.
type host struct {
	testing.TB
	cleanups []func()
	errs     []error
}

func newHost() *host { return &host{} }

// run runs fn, and then what was left to clean up.
func (h *host) run(fn func() error) (err error) {
	defer func() {
		panicked := recover()
		for _, cleanup := range slices.Backward(h.cleanups) {
			cleanup()
		}
		if failed, ok := panicked.(failure); ok {
			err = failed.error
		} else if panicked != nil {
			panic(panicked)
		}
		err = errors.Join(append(h.errs, err)...)
	}()
	return fn()
}

// failure ends run.
type failure struct{ error }

// Fatalf implements [testing.TB].
func (h *host) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Errorf implements [testing.TB].
func (h *host) Errorf(format string, args ...any) {
	h.errs = append(h.errs, fmt.Errorf(format, args...))
}

// Cleanup implements [testing.TB].
func (h *host) Cleanup(fn func()) { h.cleanups = append(h.cleanups, fn) }

// Context implements [testing.TB].
func (h *host) Context() context.Context { return context.Background() }

// Helper implements [testing.TB].
func (h *host) Helper() {}

// Name implements [testing.TB].
func (h *host) Name() string { return "benchmarks" }

// TempDir implements [testing.TB].
func (h *host) TempDir() string {
	directory, err := os.MkdirTemp("", "idem-benchmarks-")
	if err != nil {
		h.Fatalf("%v", err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(directory) })
	return directory
}
