//go:build linux

package main

import (
	"context"
	"sync"
	"time"

	"github.com/auth19/idem/core/intents"
)

// journal keeps the keys of all intents for the whole run. The client's own memory keeps the last 10,000 that have
// ended, and the repeats at the end begin with the first.
type journal struct {
	mu      sync.Mutex
	entries map[string]*intents.Entry
	begun   map[string]time.Time
}

var _ intents.Journal = (*journal)(nil)

func newJournal() *journal {
	return &journal{entries: map[string]*intents.Entry{}, begun: map[string]time.Time{}}
}

// Begin implements [intents.Journal].
func (j *journal) Begin(_ context.Context, e intents.Entry) (intents.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	there, ok := j.entries[e.Intent]
	first := !ok && e.Key == ""
	if e.Key == "" {
		e.Key = intents.NewKey()
	}
	if !ok {
		there = &intents.Entry{Intent: e.Intent, Key: e.Key, Command: e.Command}
		j.entries[e.Intent], j.begun[e.Intent] = there, time.Now()
	}
	found := *there
	found.Age, found.First = time.Since(j.begun[e.Intent]), first
	return found, nil
}

// Find implements [intents.Journal].
func (j *journal) Find(_ context.Context, intent string) (intents.Entry, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	there, ok := j.entries[intent]
	if !ok {
		return intents.Entry{}, false, nil
	}
	return *there, true, nil
}

// End implements [intents.Journal].
func (j *journal) End(_ context.Context, intent string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries[intent].Ended = true
	return nil
}
