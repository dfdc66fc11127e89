package contracttest

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Violations runs all checks as Run does, on the first routes of app, and returns by their names what failed on any of
// them, and what was tried on none, with messages. oneRound sends many repeats at once (M-6) one time instead of eight: they
// are a third of the suite's work.
func Violations(t *testing.T, app App, routes int, oneRound bool) (failed, skipped map[string]string) {
	t.Helper()
	app = app.withDefaults()
	require.NoError(t, app.validate())
	s := newSuite(app)
	if oneRound {
		s.rounds = 1
	}
	defer s.client.CloseIdleConnections()

	failed, skipped = map[string]string{}, map[string]string{}
	tried := map[string]bool{}
	run := func(r Route, c check) {
		failure, skip := s.tryOut(t, r, c)
		if failure != "" {
			failed[c.name()] = failure
		}
		if skip != "" {
			skipped[c.name()] = skip
		} else {
			tried[c.name()] = true
		}
	}
	for _, r := range app.Routes[:routes] {
		for c := range checksOf(r) {
			run(r, c)
		}
	}
	for _, c := range appChecks {
		run(app.Routes[0], c)
	}
	maps.DeleteFunc(skipped, func(name, _ string) bool { return tried[name] })
	return failed, skipped
}

// Violation runs the check of one rule on the first route of app, and returns what failed, and why it was skipped. It has
// so much patience with a store that is too busy.
func Violation(t *testing.T, app App, rule string, patience time.Duration) (failure, skip string) {
	t.Helper()
	app = app.withDefaults()
	require.NoError(t, app.validate())
	s := newSuite(app)
	s.rounds, s.patience = 1, patience
	defer s.client.CloseIdleConnections()
	for c := range checksOf(app.Routes[0]) {
		if c.rule == rule {
			return s.tryOut(t, app.Routes[0], c)
		}
	}
	t.Fatalf("no check of %s", rule)
	return "", ""
}

// tryOut runs a check, whatever comes of it.
func (s *suite) tryOut(t *testing.T, r Route, c check) (failure, skip string) {
	t.Helper()
	rec := &recorder{ctx: t.Context()}
	done := make(chan struct{})
	go func() { // FailNow and Skip end the goroutine
		defer close(done)
		s.run(rec, r, c)
	}()
	<-done
	return rec.failure, rec.skip
}

// recorder is a tester that remembers.
type recorder struct {
	ctx           context.Context //nolint:containedctx // as a *testing.T has one
	mu            sync.Mutex
	failure, skip string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure += fmt.Sprintf(format, args...)
}

func (r *recorder) Skip(args ...any) {
	r.skip = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) FailNow()                 { runtime.Goexit() }
func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
