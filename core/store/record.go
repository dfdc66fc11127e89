package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// timeLen is the number of bytes of an id that are the time of a key that is a UUIDv7: 48 bits (K-9).
const timeLen = 6

// ID is the id of a record: a hash of principal and key. If the key is a UUIDv7, the id begins with the key's time (see
// core.Scoping). Clients and operators see its hex form as the operation id. The key itself cannot be read from it.
type ID [sha256.Size]byte

// Hash returns the part of the id that is always a hash. Choose locks and shards by this part, never by the first bytes:
// these may be a time, which many ids share (K-9).
func (id ID) Hash() []byte { return id[timeLen:] }

// String returns the operation id: 64 lower-case hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText implements [encoding.TextMarshaler] with the form of String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts the same texts as [ParseID].
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err == nil {
		*id = parsed
	}
	return err
}

// ParseID reads an operation id, 64 hex digits of either case. Any other text is an error.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != hex.EncodedLen(len(id)) {
		return ID{}, errors.New("idem: an operation id has 64 hex digits")
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, errors.New("idem: an operation id has only hex digits")
	}
	return id, nil
}

// Scope identifies a principal in a record without naming it. It decides who may ask for the operation (M-7).
type Scope [sha256.Size]byte

// Realm is the hash of a record's namespace, issuer and tenant: operators see the operations of their own realm (S-5). Its
// first 8 bytes are the hash of the namespace alone, so that a service can list its own operations.
type Realm [24]byte

// Within reports whether r begins with prefix.
func (r Realm) Within(prefix []byte) bool { return bytes.HasPrefix(r[:], prefix) }

// Viewer is who asks for an operation: its principal, and an operator of its realm, may see it (M-7, S-5).
type Viewer struct {
	Scope Scope  // zero: none
	Realm []byte // the beginning of the realms that an operator may see; empty: none
	All   bool   // sees every record: the library itself, which decides by what it reads
}

// Sees reports whether the viewer may see a record. Nobody is the principal of a marked one: see [Record.Ownerless].
func (v Viewer) Sees(r Record) bool {
	return v.All || v.Scope != Scope{} && r.Scope == v.Scope || len(v.Realm) > 0 && r.Realm.Within(v.Realm)
}

// CommandHash is the hash of a command, and the version of the rules that made it.
type CommandHash struct {
	Version int16
	Sum     [sha256.Size]byte
}

// String returns the version and the hash in hex, "1:9f86...", as gormstore.Once keeps them in command_hash.
func (h CommandHash) String() string {
	return strconv.Itoa(int(h.Version)) + ":" + hex.EncodeToString(h.Sum[:])
}

// UnknownHash is the version of the command hash of imported records. The module does not know how the other table hashed
// commands, so such a record matches every command until it expires. If a client uses the key for another command, it
// gets the recorded answer instead of key_reused. A correct client never does that.
const UnknownHash int16 = 0

// Owner is the random token of one attempt. Owner and fence prove to which attempt a write belongs.
type Owner [16]byte

// Ticket is an attempt's proof of ownership: every write of an attempt compares all three.
type Ticket struct {
	ID    ID
	Owner Owner
	Fence int64 // 1 for the first attempt; it rises with every further attempt and every settlement
}

// Recovery says what happens after an attempt that failed or was cut off (contract X).
type Recovery uint8

// The recoveries. The zero value is not a recovery: money safety has no default (O-5).
const (
	// Rollback is for handlers that only write rows of the app's own database, through the attempt's transaction. The rows
	// and the recorded answer commit together. If they cannot, the rows are undone.
	Rollback Recovery = iota + 1
	// Resume is for handlers made of named steps: database steps and provider calls. The next repeat continues after the
	// last finished step.
	Resume
	// Park is for all other handlers. After an attempt that failed or was cut off, the operation is unknown and does not run
	// again. A reconciler or an operator settles it.
	Park
)

// String returns "Rollback", "Resume" or "Park".
func (r Recovery) String() string {
	switch r {
	case Rollback:
		return "Rollback"
	case Resume:
		return "Resume"
	case Park:
		return "Park"
	}
	return "none"
}

// State is the state of a record. It can differ from the stored state, because time has passed: see [Record.State].
type State uint8

// The states of a record.
const (
	Running   State = iota + 1 // an attempt is running, or a repeat may continue a Resume operation
	Completed                  // the answer is recorded and can be replayed
	Unknown                    // an attempt failed or was cut off, and may have been applied (M-4)
	Expired                    // past retention, or erased: only the tombstone is left (M-5)
	Free                       // the key can be claimed again
)

// String returns the word that clients see: "running", "completed", "unknown", "expired" or "free".
func (s State) String() string {
	switch s {
	case Running:
		return "running"
	case Completed:
		return "completed"
	case Unknown:
		return "unknown"
	case Expired:
		return "expired"
	case Free:
		return "free"
	}
	return "invalid"
}

// Answer is a recorded answer: what the client saw.
type Answer struct {
	Status int
	Header http.Header // only what the handler added and the allowlist lets through
	Body   []byte
	// Partial: the answer was too large or had been streamed, so that only status and Location are recorded.
	Partial bool
	// Unread is set where the store could not read Header and Body.
	Unread Unread
}

// Unread says why a store returns a record without what was recorded there: an answer, or the result of a step. The rest of
// the record is as it is.
type Unread uint8

// The reasons.
const (
	Readable   Unread = iota // it was read
	Unreadable               // this instance cannot read it; another one, or a later configuration, may
	Lost                     // nobody can read it any more: the configuration says so
)

// Record is one row of the store as it was read, with the store's clock at that moment.
type Record struct {
	Ticket
	Scope    Scope
	Realm    Realm
	Method   string
	Route    string // the router's pattern
	Recovery Recovery
	Hash     CommandHash
	Stored   State  // what the row says; State says what it means at Now
	Attempts int    // since the key was last free; only a Resume operation has more than one
	Timed    bool   // the key is a timed one: see core.TimedKey
	Answer   Answer // a tombstone keeps only its Status, for the outcome class
	// Ends is how attempts have ended that did not end the operation: see AttemptEnds. nil: none has.
	Ends []byte
	// Traceparent is the trace of the last attempt, in the form of the W3C header; "" if there is none. A settlement does
	// not change it.
	Traceparent string

	CreatedAt  time.Time
	LeaseUntil time.Time // end of the attempt's lease
	Deadline   time.Time // end of the attempt's deadline; a settlement waits for both
	ExpiresAt  time.Time // end of retention; zero while there is no answer
	PurgeAt    time.Time // end of the tombstone; equal to ExpiresAt without a tombstone

	Now time.Time // the store's clock when the row was read (T-1)
}

// State computes the state of the record at r.Now. It uses only the row and the clock, so it is the same for every
// reader, before and after a sweep (T-4).
func (r Record) State() State {
	switch r.Stored {
	case Running:
		// If a running Rollback record can be seen, its handler has committed the transaction itself.
		if r.Recovery == Rollback || r.Recovery == Park && r.LeaseExpired() {
			return Unknown
		}
	case Completed, Expired:
		switch {
		case !r.Now.Before(r.PurgeAt):
			return Free
		case !r.Now.Before(r.ExpiresAt):
			return Expired
		}
	}
	return r.Stored
}

// Unread says whether a repeat, or whoever asks, can be given the answer (M-3, M-7). A record that has none is Readable.
func (r Record) Unread() Unread {
	if r.State() != Completed {
		return Readable
	}
	return r.Answer.Unread
}

// LeaseExpired reports whether the lease of the last attempt had run out at r.Now.
func (r Record) LeaseExpired() bool { return !r.Now.Before(r.LeaseUntil) }

// HalfDone reports whether a Resume operation had no attempt at r.Now: it is past lease and deadline, and waits for its
// next attempt.
func (r Record) HalfDone() bool {
	return r.Stored == Running && r.Recovery == Resume && r.LeaseExpired() && !r.Now.Before(r.Deadline)
}

// NextAttempt is from when on a Resume operation may be continued: from the end of its last attempt's lease, and a pause.
// There is none behind the first two attempts; behind the third it is pause, and then twice as long each time, up to
// MaxPause, or pause if that is longer.
func (r Record) NextAttempt(pause time.Duration) time.Time {
	if r.Attempts < 3 {
		return r.LeaseUntil
	}
	longest := max(pause, MaxPause)
	for n := 3; n < r.Attempts && pause < longest; n++ {
		pause *= 2
	}
	return r.LeaseUntil.Add(min(pause, longest))
}

// OutcomeClass says how a completed command ended: "succeeded" for 2xx and 3xx, "refused" for 4xx, "" if there is no
// answer. A tombstone keeps only this (M-5).
func (r Record) OutcomeClass() string {
	switch {
	case r.Answer.Status == 0:
		return ""
	case r.Answer.Status < 400:
		return "succeeded"
	default:
		return "refused"
	}
}

// KeyMade returns the time of the record's key in whole milliseconds; the zero time if Timed is false.
func (r Record) KeyMade() time.Time {
	if !r.Timed {
		return time.Time{}
	}
	var ms int64
	for _, b := range r.ID[:timeLen] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

// Spent reports whether a sweep will drop this record of a timed key. Its key stays refused, before and after the sweep
// (T-6).
func (r Record) Spent() bool { return r.Timed && r.Stored != Free && r.State() == Free }
