package store

import (
	"context"
	"errors"
	"time"
)

// Errors of a Store; compare them with [errors.Is]. Any other error means that the store could not be reached or did not
// answer. Then the effect of the call is not known.
var (
	// ErrStale: the record has a higher fence, another owner, or was settled. Nothing was written.
	ErrStale = errors.New("idem: stale attempt: another attempt or a settlement took the record over")
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("idem: no such operation")
	// ErrRetryable: the transaction was rolled back and may be run again unchanged. Causes are a serialization failure, a
	// deadlock, a lock that was not granted, an operator's intervention, or that it was aborted by an error that says nothing
	// about the command: a server that has no memory, a cached plan of a table that was changed.
	ErrRetryable = errors.New("idem: the transaction was rolled back; it may be repeated")
	// ErrAborted: the transaction was rolled back because one of its statements, or its COMMIT, failed with an error that a
	// repeat does not solve.
	ErrAborted = errors.New("idem: the transaction was rolled back because a statement in it had failed")
	// ErrStatement: the database has refused a statement of the store itself, and will again: a missing right, a column that
	// is not there. It is an event. Other errors say what becomes of the attempt.
	ErrStatement = errors.New("idem: the database has refused a statement of the store")
	// ErrUnconfirmed: it is not known yet whether COMMIT took effect.
	ErrUnconfirmed = errors.New("idem: the outcome of COMMIT is not known yet")
	// ErrEnded: the handler has ended the transaction of its attempt itself, so it is not known which of its rows were
	// committed. The operation is unknown.
	ErrEnded = errors.New("idem: the handler has ended the transaction of its attempt itself")
	// ErrNotSettleable: only an operation that is unknown, and past its lease and its deadline, can be settled.
	ErrNotSettleable = errors.New("idem: only an unknown operation past lease and deadline can be settled")
	// ErrStepsFinished: the operation cannot be settled as not applied, because steps of it have finished, and Undone does
	// not say what has undone them.
	ErrStepsFinished = errors.New("idem: steps of this operation have finished; it was applied in part, unless Undone says " +
		"what undid them")
	// ErrFull: the store accepts no new keys until others expire. It never removes a record that is still valid (T-4).
	ErrFull = errors.New("idem: the store is full")
	// ErrCrowded: the claim waited for its turn until its context ended. It was not sent to the database, and there is
	// nothing to release (F-1).
	ErrCrowded = errors.New("idem: the store has more to do than it can")
	// ErrNotSent: there was no connection to the database, or none in time. The claim was not sent, and there is nothing to
	// release (F-1).
	ErrNotSent = errors.New("idem: the store got no connection to its database")
	// ErrUnfit: before its first claim the store has found that its database does not do what it needs, or it could not find
	// out yet. The claim was not sent, and there is nothing to release (F-8).
	ErrUnfit = errors.New("idem: the store's database does not do what the store needs")
	// ErrUnsealed: what is to be recorded could not be made unreadable for others, as the store's configuration asks. Nothing
	// was written.
	ErrUnsealed = errors.New("idem: the store could not seal what is to be recorded")
	// ErrUnreadable: what another instance has recorded cannot be read by this one: see Unread.
	ErrUnreadable = errors.New("idem: this instance cannot read what is recorded")
	// ErrSchema: the tables lack what this release needs.
	ErrSchema = errors.New("idem: the store's tables lack what this release needs")
	// ErrNoWrites: the server takes no writes. It is a standby, or read-only.
	ErrNoWrites = errors.New("idem: the store's server takes no writes")
)

// LeavesNothing reports that a claim that has failed with err was not sent, or has changed nothing: there is nothing to
// release (F-1).
func LeavesNothing(err error) bool {
	for _, nothing := range []error{ErrFull, ErrCrowded, ErrNotSent, ErrUnfit, ErrClock} {
		if errors.Is(err, nothing) {
			return !errors.Is(err, ErrUnconfirmed)
		}
	}
	return false
}

// Claim asks for the right to run one attempt of a command.
type Claim struct {
	ID       ID            // of the record (K-6)
	Owner    Owner         // random, new for each attempt
	Scope    Scope         // of the principal; kept with the record (M-7)
	Realm    Realm         // of the principal; kept likewise (S-5)
	Window   Window        // what the store's clock may show (T-5)
	Method   string        // kept with the record, for operators
	Route    string        // the router's pattern, kept likewise
	Recovery Recovery      // Rollback and Resume in Attempts.Begin, Park in Store.Claim
	Hash     CommandHash   // kept with the record; compared if a Resume operation is taken over
	Key      KeyTime       // the time of the key, judged if the key has no record; for a store with Settings
	Lease    time.Duration // how long the attempt counts as alive without a renewal
	Deadline time.Duration // how long the attempt may take

	// Lean: of a record whose answer can be replayed the caller needs only ID, Fence, Recovery, Hash, Stored, Answer,
	// Traceparent, ExpiresAt, PurgeAt and Now. A store may leave out the rest.
	Lean bool

	// Traceparent is the trace of the attempt, as a core.Tracer returns it, or "". It is kept with the record.
	Traceparent string

	// Pause: a Resume operation is not taken over before its Record.NextAttempt with this pause.
	Pause time.Duration
}

// Trusts reports whether a key without a record, or with a freed one, may be claimed while the store's clock shows now
// (T-5). It may not if the clock is behind the window, because the record would expire too early. A timed key may not be
// claimed if the clock is outside of the window.
func (c Claim) Trusts(now time.Time) bool {
	if c.Key.Timed {
		return c.Window.Has(now)
	}
	return c.Window.Reached(now)
}

// Claimed is the outcome of a claim. It is exactly one of these four: Won; Busy; KeyRefused; or Record is an existing row.
type Claimed struct {
	Won  bool // the caller owns the record: Record.Ticket is its proof
	Busy bool // another attempt holds the key, and its record is not visible yet, or may not be taken over now
	// KeyRefused: the key has no record, or a free one, and its time forbids a first attempt (see Settings). No attempt
	// is running.
	KeyRefused bool
	Record     Record // Won: the caller's own row; Busy: zero; KeyRefused: only Now; otherwise the existing row
}

// Store keeps records. Its methods may be called from any goroutines at once and, if the store is durable, from any
// processes. Only the store's clock decides leases and expiry, at the time of the statement (T-1). A call with an ended
// context returns an error. storetest.Run checks an implementation against everything that is said here.
//
// A ticket is current while its record exists, has the same owner and fence, and is stored as running.
type Store interface {
	// Claim decides atomically who runs a command (M-6). It wins in three cases: there is no record; the record's state is
	// Free; or the record is a Resume attempt whose lease has run out and whose c.Pause is over, c is Resume too, and its
	// Hash equals c.Hash. The fence of a key rises with every attempt, even if the key was free in between (see Sweep).
	// Claim never waits for a running attempt. A claim that loses does not change the record. A claim that wins gives the
	// record its own Traceparent, because its attempt will answer.
	//
	// While the store's clock is outside of c.Window, every lease and retention counts as not over yet, and the claim is
	// decided by that. If c does not trust the clock (see Claim.Trusts), a claim without a record, or with a freed one, is
	// ErrClock (T-5).
	//
	// On a store with Settings, a claim that would win is KeyRefused in two cases: c.Key does not allow it by the store's
	// clock and floor at the moment of the claim, or the record is Spent. A claim that continues a Resume operation is not
	// judged (T-6).
	//
	// Claim commits the record at once, whatever its recovery. After an error that is not one of [LeavesNothing], the claim may
	// have been stored nevertheless, or come later: the caller calls Release.
	Claim(ctx context.Context, c Claim) (Claimed, error)

	// Renew sets the end of the lease to now plus lease, but not later than the attempt's deadline, and not earlier than it
	// was: the owner relies on it, and the store's clock may be behind. ErrStale if t is not current.
	Renew(ctx context.Context, t Ticket, lease time.Duration) error

	// End ends the attempt of t, and says what becomes of its record. The same ending again with the same ticket returns nil
	// and changes nothing: the first answer stands.
	//
	//	e.State    when                                                             otherwise
	//	Completed  t owns the record, and it is stored as running or unknown  ErrStale, also without a record
	//	Unknown    t is current: an answer is never taken back                      ErrStale, also without a record
	//	Free       t owns the record, and it is stored as running                   ErrStale; without a record nil
	//	Running    t is current: its lease ends, and a Resume attempt may follow    ErrStale, also without a record
	//
	// Unknown and Running keep e.Ends, unless it is nil. All four work after the lease has expired. t owns the record that has
	// its owner and fence; a takeover and a settlement raise the fence. ErrUnsealed: nothing was written, and another Answer
	// can be recorded.
	End(ctx context.Context, t Ticket, e Ending) error

	// Release takes back claims whose outcome their owner does not know (F-1): the keys of those that have won are free, and
	// none that comes later wins. It looks at ID and Owner of the tickets, and waits for claims that are still running in the
	// store, as long as ctx allows. It does not free a Resume record with a fence above 1, because steps of an earlier attempt
	// may have finished: it ends the lease, so that the next repeat continues, and the attempt that is taken back does not
	// count. The same again changes nothing.
	//
	// ErrStale if another attempt has the record of one of them, or it has been answered: it stays, the others are taken back.
	// After any other error it is not known which are, and the caller may send them again.
	Release(ctx context.Context, lost []Ticket) error

	// Find reads a record for a viewer. ErrNotFound if there is none. A record whose state is Free may be found until a sweep
	// drops it. Of one that v does not see, headers and body are neither read nor returned, and it takes as many statements as
	// to find none (S-5).
	Find(ctx context.Context, id ID, v Viewer) (Record, error)

	// Sweep turns up to limit completed records past retention into tombstones, and drops up to limit tombstones and free
	// records whose time is over (T-3). A freed record stays with its fence for a day at least, so that a settlement of an
	// earlier attempt never applies to the next one. A CommandLog forgets up to limit of them, and a store with an
	// inbox up to limit markers of messages. Sweep never changes the contents of running or unknown records; it may mark
	// them as listed. Any number of sweeps may run at once. A store may turn a record into a tombstone late: up to
	// Claim.Deadline after the end of its retention, but at most a quarter of the retention late. If the clock is outside of w,
	// nothing is dropped: ErrClock (T-5). With any other error, Swept still says what was done.
	Sweep(ctx context.Context, limit int, w Window) (Swept, error)
}

// Ending is how an attempt ends in Store.End.
type Ending struct {
	State  State      // Completed: with Answer. Unknown: parked (X). Free: nothing was applied. Running: it yields
	Answer Completion // if Completed
	Ends   []byte     // if Unknown or Running: Record.Ends with the end of this attempt
}

// Completion is an answer that is to be recorded, and how long it is kept. A store keeps no reference to the answer that
// it is given. The body of an answer that it returns must not be changed.
type Completion struct {
	Answer    Answer
	Retention time.Duration // how long it can be replayed
	Tombstone time.Duration // how long after that the key stays refused; 0 keeps no tombstone
}

// Swept counts what a sweep did.
type Swept struct {
	Tombstones int // completed records turned into tombstones
	Dropped    int // tombstones and free records removed
	CommandLog int // of a CommandLog: commands forgotten
	Messages   int // markers of processed messages removed, of a store with an inbox
}
