package core

import (
	"context"
	"time"
)

// Watcher is a Store that remembers which commands have come by, whether or not their keys are enforced. Only on such a
// store can a policy ask for ShadowUntil or Rekey.
type Watcher interface {
	Store

	// Sight notes a command, and tells what it had seen of its key and of its principal by then. What it notes is of no
	// weight for claims: a Watcher is a detector, and of two commands that come at the same moment it may see neither
	// from the other. Sweep forgets sightings that are past their time.
	Sight(ctx context.Context, s Sighting) (Seen, error)
}

// Sighting is a command that has come by.
type Sighting struct {
	ID     ID // of the record that its key stands for; the zero ID where it came without a valid key
	Scope  Scope
	Hash   CommandHash
	Window time.Duration // how far back the same command under another key counts
	Keep   time.Duration // how long it is remembered, not shorter than Window

	// Tentative: where its key is new and it is Rekeyed, it is not noted, because it will be refused. Else a client that
	// comes with new keys again and again would be refused for ever.
	Tentative bool
}

// Seen is what a Watcher had seen before a sighting.
type Seen struct {
	// Key: this key had come before, and First is the command it came with first. A key that was last remembered
	// longer ago than its Keep is a new one.
	Key   bool
	First CommandHash

	// Rekeyed: before this key came first, and not longer than Window ago, the same principal had sent the same command
	// under another key, or without one. Earlier is the record id of the latest of those; the zero ID where that came
	// without a key.
	Rekeyed bool
	Earlier ID
}
