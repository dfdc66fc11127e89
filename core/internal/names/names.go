// Package names remembers the names of steps, calls and references that a process has seen.
package names

import (
	"maps"
	"slices"
	"sync"
	"unicode/utf8"
)

// MaxLength is the longest name of a step or a call, in bytes of UTF-8.
const MaxLength = 255

// Seen are names of calls that handlers of this process have made, or of references that it has seen. They are parts of the
// code, so there are few. The zero value is ready for use.
type Seen struct {
	mu   sync.RWMutex
	seen map[string]struct{}
}

// maxSeen bounds them where a handler makes names of its data.
const maxSeen = 64

// Note remembers a name.
func (c *Seen) Note(name string) {
	c.mu.RLock()
	_, known := c.seen[name]
	full := len(c.seen) >= maxSeen
	c.mu.RUnlock()
	if known || full || len(name) > MaxLength || !utf8.ValidString(name) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]struct{}{}
	}
	c.seen[name] = struct{}{}
}

// All returns the names, sorted.
func (c *Seen) All() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.seen))
}
