package intents

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// Journal keeps the keys of intents, so that a caller that was killed repeats its command with the same key.
// The package gormstore/journal has one that keeps them beside the caller's own rows. Several processes may use one
// journal, and repeat one intent at once: they all get the same key.
type Journal interface {
	// Begin returns the entry of e.Intent, as it is after this call. If there is no entry, Begin makes one with e.Key, or
	// with a new key if e has none (see [NewKey]). If the entry has no Command and e has one, Begin stores that with the
	// time of the journal's clock, and it notes who has come: see First. It never changes a stored key or command: the first
	// ones stay. The entry must be durable
	// when Begin returns, because the command is sent after that.
	Begin(ctx context.Context, e Entry) (Entry, error)
	// Find returns the entry of an intent, and whether a durable entry exists. It changes nothing, and does not wait for a
	// transaction that is planning the intent. If there is no entry, the result may have the key that the intent would get.
	Find(ctx context.Context, intent string) (Entry, bool, error)
	// End records that an intent has a definite answer. It returns nil if the intent has ended before, or does not exist.
	End(ctx context.Context, intent string) error
}

// Entry is the entry of an intent in a [Journal].
type Entry struct {
	Intent string
	Key    string
	// Command is the hash of the command that was sent with the key; zero before the first one.
	Command store.CommandHash
	// Age is how long ago the command was first given to Begin, by the journal's clock; 0 if it was not yet, and [UnknownAge]
	// if that is not known: the clock shows a time before it, or is wrong.
	Age time.Duration
	// Ended says that there was a definite answer.
	Ended bool
	// By is a random name of who sends the command, for Begin only. Whoever asks again with the same By learns whether
	// another caller has come meanwhile (C-8).
	By string
	// First is set by Begin only: nobody but e.By has ever given a command, or brought the key, and the journal has made the
	// key at random, so nobody else can have sent anything with it. In doubt it is false, and the outcome is uncertain until
	// there is an answer.
	First bool
}

// UnknownAge is longer than any provider keeps a key: an intent whose age is not known is too old to be sent again (T-5).
const UnknownAge time.Duration = 1 << 62
