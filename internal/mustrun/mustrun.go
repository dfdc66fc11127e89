// Package mustrun is for assertions that a test does not call itself, in a handler, a hook or an outer middleware: where
// nobody calls them, a test passes that has looked at nothing.
package mustrun

import (
	"sync/atomic"
	"testing"
)

// New fails the test unless ran has been called by its end, from any goroutine. Clean-ups that were registered after it,
// such as those of a server, come before it looks.
func New(t testing.TB) (ran func()) {
	t.Helper()
	var called atomic.Bool
	t.Cleanup(func() {
		if !called.Load() {
			t.Errorf("%s: assertions that must run have not run", t.Name())
		}
	})
	return func() { called.Store(true) }
}
