package contracttest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Try says which checks are run.
type Try struct {
	Routes   int           // the first of the app's
	Rules    []string      // nil: all
	OneRound bool          // many repeats at once (M-6) come one time instead of eight: they are a third of the suite's work
	Patience time.Duration // with a store that is too busy; 0: as much as Run has
}

// Violations runs checks as Run does, and returns by their names what failed on any of the routes, and what was tried on
// none, with messages.
func Violations(t *testing.T, app App, try Try) (failed, skipped map[string]string) {
	t.Helper()
	app = app.withDefaults()
	require.NoError(t, app.validate())
	s := newSuite(app)
	if try.OneRound {
		s.rounds = 1
	}
	s.patience = cmp.Or(try.Patience, s.patience)
	defer s.client.CloseIdleConnections()

	failed, skipped = map[string]string{}, map[string]string{}
	tried := map[string]bool{}
	run := func(r Route, c check) {
		if try.Rules != nil && !slices.Contains(try.Rules, c.rule) {
			return
		}
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
	for _, r := range app.Routes[:try.Routes] {
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
