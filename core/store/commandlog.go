package store

import (
	"context"
	"time"
)

// CommandLog is a Store that remembers which commands have arrived, even if their keys are not enforced. A policy can set
// ShadowUntil or Rekey only on such a store.
type CommandLog interface {
	Store

	// LogCommand remembers a command, and returns what has come before with its key or from its principal. Claims do not
	// depend on the log. If two commands arrive at the same moment, LogCommand may miss that they are equal: it returns for
	// neither of them that the other has come. Sweep removes commands that are older than their Keep.
	LogCommand(ctx context.Context, s LoggedCommand) (EarlierCommands, error)
}

// LoggedCommand is a command that has arrived.
type LoggedCommand struct {
	ID     ID // of the record that belongs to its key; the zero ID for a command without a valid key
	Scope  Scope
	Hash   CommandHash
	Window time.Duration // how long ago the same command with another key may have come to count
	Keep   time.Duration // how long it is kept, not shorter than Window

	// Tentative: a command with a new key that is Rekeyed is not remembered, because it will be refused. Otherwise a client
	// that sends a new key again and again would be refused for ever.
	Tentative bool
}

// EarlierCommands is what has come before a command.
type EarlierCommands struct {
	// Key: this key has come before, and First is the first command that came with it. A key whose Keep is over
	// counts as new.
	Key   bool
	First CommandHash

	// Rekeyed: within Window, and before this key first came, the same principal sent the same command with another key or
	// without a key. Earlier is the record id of the latest such command; the zero ID if it had no key.
	Rekeyed bool
	Earlier ID
}
