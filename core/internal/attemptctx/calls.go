package attemptctx

import (
	"crypto/sha256"
	"sync"
)

// Calls are the named calls that a handler has made in its attempt, by their derived keys (C-3). The zero value is
// ready.
type Calls struct{ made sync.Map }

// Enter notes a call. It is false where there was one of the same key before.
func (c *Calls) Enter(key [sha256.Size]byte) bool {
	_, again := c.made.LoadOrStore(key, struct{}{})
	return !again
}
