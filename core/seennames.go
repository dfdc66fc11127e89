package core

import (
	"maps"
	"slices"
	"sync"
	"unicode/utf8"
)

// seenNames are the names of calls that handlers of this process have made, or of references that it has seen. They are
// parts of the code, so there are few.
type seenNames struct {
	mu   sync.RWMutex
	seen map[string]struct{}
}

// maxSeenNames bounds them where a handler makes names of its data.
const maxSeenNames = 64

// note remembers a name.
func (c *seenNames) note(name string) {
	c.mu.RLock()
	_, known := c.seen[name]
	full := len(c.seen) >= maxSeenNames
	c.mu.RUnlock()
	if known || full || len(name) > maxStepName || !utf8.ValidString(name) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]struct{}{}
	}
	c.seen[name] = struct{}{}
}

// all returns the names, sorted.
func (c *seenNames) all() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.seen))
}
