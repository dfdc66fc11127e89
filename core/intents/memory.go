package intents

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// How many intents a memory journal keeps.
const (
	maxEnded   = 10_000
	maxPending = 100_000
)

// errFull: a pending intent is never forgotten to make room for another.
var errFull = errors.New("idem: the memory journal is full of intents without an answer; repeat those, or use " +
	"a durable journal")

// MemoryJournal is a [Journal] that is lost with its process. An idemclient.Client uses one if its Config has no Journal.
type MemoryJournal struct {
	mu      sync.Mutex
	entries map[string]*memoryEntry
	ended   []string // in the order of their end
}

type memoryEntry struct {
	Entry
	brought bool // a caller has brought its key, and may have used it before
	others  bool // several have given a command
	begun   time.Time
}

var _ Journal = (*MemoryJournal)(nil)

// NewMemoryJournal returns an empty journal. It keeps the last 10,000 intents that have ended, and at most 100,000
// pending ones. Above that, Begin refuses a new intent.
func NewMemoryJournal() *MemoryJournal {
	return &MemoryJournal{entries: map[string]*memoryEntry{}}
}

// Begin implements [Journal].
func (j *MemoryJournal) Begin(_ context.Context, e Entry) (Entry, error) {
	brought := e.Key != ""
	if !brought {
		e.Key = NewKey()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	there, ok := j.entries[e.Intent]
	if !ok {
		if len(j.entries)-len(j.ended) >= maxPending {
			return Entry{}, errFull
		}
		there = &memoryEntry{Entry: Entry{Intent: e.Intent, Key: e.Key}}
		j.entries[e.Intent] = there
	}
	there.brought = there.brought || brought && e.Key == there.Key // another key is refused, and not sent
	if e.Command == (store.CommandHash{}) {
		return there.found(), nil
	}
	first := there.Command == (store.CommandHash{})
	if first {
		there.Command, there.By, there.begun = e.Command, e.By, time.Now()
	}
	there.others = there.others || !first && (e.By == "" || e.By != there.By)
	found := there.found()
	found.First = !there.others && !there.brought
	return found, nil
}

// found is the entry with its age.
func (e *memoryEntry) found() Entry {
	found := e.Entry
	found.By = ""
	if !e.begun.IsZero() {
		found.Age = time.Since(e.begun)
	}
	return found
}

// Find implements [Journal].
func (j *MemoryJournal) Find(_ context.Context, intent string) (Entry, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	there, ok := j.entries[intent]
	if !ok {
		return Entry{}, false, nil
	}
	return there.found(), true, nil
}

// End implements [Journal].
func (j *MemoryJournal) End(_ context.Context, intent string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	there, ok := j.entries[intent]
	if !ok || there.Ended {
		return nil
	}
	there.Ended = true
	j.ended = append(j.ended, intent)
	if len(j.ended) > maxEnded {
		delete(j.entries, j.ended[0])
		j.ended = j.ended[1:]
	}
	return nil
}
