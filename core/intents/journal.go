package intents

import (
	"context"
	"time"

	"github.com/auth19/idem/core"
)

// Journal keeps the keys of intents, so that a caller that was killed repeats with the same key. gormstore.NewJournal
// keeps them beside the caller's own rows. Several processes may use one journal, and resume one intent at once: they
// all get one key.
type Journal interface {
	// Begin returns the entry of e.Intent as it stands once this call is over. Where there is none, it is made with e.Key,
	// or with a key of the journal's own where e has none ([NewKey], say); where it has no Command yet and e has one, that
	// is noted with the time by the journal's own clock. What stands is never changed: the first key and the first command
	// win. It has to be durable when it returns: the command is sent after it.
	Begin(ctx context.Context, e Entry) (Entry, error)
	// Find returns the entry of an intent, and whether there is one that is durable. It changes nothing, and does not wait
	// for one that is being planned. Where there is none, the entry may have the key that it would get, if that is known.
	Find(ctx context.Context, intent string) (Entry, bool, error)
	// End notes that an intent has a definite answer. Ending again, or what is not there, is nil.
	End(ctx context.Context, intent string) error
}

// Entry is what a [Journal] keeps of an intent.
type Entry struct {
	Intent string
	Key    string
	// Command is the hash of the command that was sent under the key; zero where none was yet.
	Command core.CommandHash
	// Age is how long ago the command was first about to be sent, by the journal's clock; 0 where it was not yet.
	Age time.Duration
	// Ended says that there has been a definite answer.
	Ended bool
	// First is for Begin to say: this call has noted the command, and the key was made at random by the journal, so that
	// nobody can have sent anything under it. In doubt false: then the outcome is uncertain until an answer says otherwise.
	First bool
}
