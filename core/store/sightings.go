package store

import (
	"context"
	"time"
)

// Sightings is a Store that remembers which commands have arrived, even if their keys are not enforced. A policy can set
// ShadowUntil or Rekey only on such a store.
type Sightings interface {
	Store

	// Sight remembers a command, and returns what the store had seen of the command's key and principal before. Claims do
	// not depend on sightings. If two commands arrive at the same moment, Sight may miss that they are equal: it returns for
	// neither of them that it has seen the other. Sweep removes sightings that are older than their Keep.
	Sight(ctx context.Context, s Sighting) (Seen, error)
}

// Sighting is a command that has arrived.
type Sighting struct {
	ID     ID // of the record that belongs to its key; the zero ID for a command without a valid key
	Scope  Scope
	Hash   CommandHash
	Window time.Duration // how long ago the same command with another key may have come to count
	Keep   time.Duration // how long the sighting is kept, not shorter than Window

	// Tentative: a command with a new key that is Rekeyed is not remembered, because it will be refused. Otherwise a client
	// that sends a new key again and again would be refused for ever.
	Tentative bool
}

// Seen is what the store had seen before a sighting.
type Seen struct {
	// Key: the store has seen this key before, and First is the first command that came with it. A key whose Keep is over
	// counts as new.
	Key   bool
	First CommandHash

	// Rekeyed: within Window, and before this key first came, the same principal sent the same command with another key or
	// without a key. Earlier is the record id of the latest such command; the zero ID if it had no key.
	Rekeyed bool
	Earlier ID
}
