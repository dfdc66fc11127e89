package core

import (
	"context"
	"errors"
	"time"
)

// Errors a Store returns, to be compared with [errors.Is]. Any other error means that the store could not be
// reached or did not answer, and that nothing is known about the effect of the call.
var (
	// ErrStale: the record has a higher fence, another owner, or was settled. Nothing was written.
	ErrStale = errors.New("idem: stale attempt: another attempt or a settlement took the record over")
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("idem: no such operation")
	// ErrRetryable: the transaction was rolled back and may be run again as it was: a serialization failure, a
	// deadlock, a lock that was not granted, an operator's intervention.
	ErrRetryable = errors.New("idem: the transaction was rolled back; it may be repeated")
	// ErrAborted: the transaction was rolled back because a statement of it, or its COMMIT, had failed for good.
	ErrAborted = errors.New("idem: the transaction was rolled back because a statement in it had failed")
	// ErrUnconfirmed: COMMIT may or may not have taken effect, and that could not be found out yet.
	ErrUnconfirmed = errors.New("idem: the outcome of COMMIT is not known yet")
	// ErrEnded: the handler has ended the transaction of its attempt itself, so that nobody knows which of its rows have
	// stayed. The operation is unknown.
	ErrEnded = errors.New("idem: the handler has ended the transaction of its attempt itself")
	// ErrNotSettleable: the record is not unknown, or its lease or deadline has not passed.
	ErrNotSettleable = errors.New("idem: only an unknown operation past lease and deadline can be settled")
	// ErrStepsFinished: steps of a Resume operation have finished, and the settlement as not applied does not say what
	// undid them.
	ErrStepsFinished = errors.New("idem: steps of this operation have finished; it was applied in part, unless Undone says " +
		"what undid them")
	// ErrFull: the store takes no new keys until others expire; live records are never evicted (T-4).
	ErrFull = errors.New("idem: the store is full")
	// ErrCrowded: the claim waited for its turn until its context ended. It was not sent to the database, and there is
	// nothing to release (F-1).
	ErrCrowded = errors.New("idem: the store has more to do than it can")
)

// Claim asks for the right to run one attempt of a command.
type Claim struct {
	ID       ID            // of the record (K-6)
	Owner    Owner         // random, new for each attempt
	Scope    Scope         // of the principal; kept with the record (M-7)
	Realm    Realm         // of the principal; kept likewise (S-5)
	Window   Window        // what the store's clock may show (T-5)
	Method   string        // kept with the record, for operators
	Route    string        // the router's pattern, kept likewise
	Recovery Recovery      // Rollback only in Transactor.Begin
	Hash     CommandHash   // compared where a Resume attempt is taken over, kept otherwise
	Key      KeyTime       // the time of the key, judged where it has no record; for a KeyTimer
	Lease    time.Duration // how long the attempt counts as alive without a renewal
	Deadline time.Duration // how long the attempt may take at all

	// Retention is how long the answer will probably be kept: see Completion. A store may use it to decide when a sweep
	// should look at the record. It promises nothing.
	Retention time.Duration
	// Counted: a Counter has to count the record while it is open. Without it, a store may leave the record out.
	Counted bool

	// Traceparent is the trace of the attempt, as [Tracer.Traceparent] returns it, or "". It is kept with the record.
	Traceparent string
}

// Claimed is the outcome of a claim. Exactly one of four holds: Won; Busy; Untimely; or Record is an existing row.
type Claimed struct {
	Won  bool // the caller owns the record: Record.Ticket is its proof
	Busy bool // another attempt holds the key and nothing of it is visible yet
	// Untimely: the key has no record, or a free one, and its time forbids a first attempt (see KeyTimer). No attempt
	// is running.
	Untimely bool
	Record   Record // the caller's own row when Won, the existing one otherwise; zero when Busy, only Now when Untimely
}

// Store keeps records. All methods may be called at once from any goroutine and, for a durable store, from any
// process. The store's clock alone decides leases and expiry, at the time of the statement (T-1). A call whose context
// is over is an error. storetest.Run checks an implementation against all that is said here.
//
// A ticket is current while its record exists, has the same owner and fence, and is stored as running.
type Store interface {
	// Claim decides atomically who runs a command (M-6). It wins where no record exists, where the record's state
	// is Free, and where the record is a Resume attempt whose lease has run out, c is Resume too, and the Hash equals
	// c.Hash. The fence of a key rises with every attempt, also where the key was free in between (see Sweep). It
	// never waits for a running attempt. The record of a claim that is lost is not touched. A claim that wins gives the
	// record its own Traceparent, because its attempt is the one that will answer.
	//
	// If the store's clock is outside of c.Window, no lease and no retention counts as over: a claim that would need that
	// is lost. If c does not trust the clock (see Claim.Trusts), a key without a record, or with one that was freed, is
	// ErrClock (T-5).
	//
	// On a KeyTimer a claim that would win is Untimely if c.Key does not allow it by the store's clock and floor at the
	// moment of the claim, and if the record is Spent. The claim of a Resume attempt that goes on is not judged (T-6).
	//
	// On an error other than ErrFull, ErrCrowded and ErrClock the claim may have landed all the same: the caller calls Release
	// with fence 0.
	Claim(ctx context.Context, c Claim) (Claimed, error)

	// Renew makes the lease end lease from now, but not after the attempt's deadline. ErrStale if t is not current.
	Renew(ctx context.Context, t Ticket, lease time.Duration) error

	// Complete records the answer. Completing again with the same ticket returns nil and keeps the first answer. It works
	// after the lease has expired and in state Unknown, as long as nobody took the record over or settled it.
	// Otherwise, and where there is no record, ErrStale.
	Complete(ctx context.Context, t Ticket, c Completion) error

	// Park makes the record unknown; parking again with the same ticket is nil. ErrStale if t is not current: an
	// answer is never taken back.
	Park(ctx context.Context, t Ticket) error

	// Release frees the key: nothing was applied. An expired lease is no obstacle. Releasing what is not there
	// or was released before is nil; ErrStale if the record is another's or no longer stored as running.
	//
	// With t.Fence 0 it takes back a claim whose outcome the owner does not know: any fence of t.Owner is meant, and a
	// claim that is still under way in the store is waited for, as long as ctx allows. A Resume record with a fence
	// above 1 is not freed by that, as steps of an earlier attempt may be finished: its lease ends, so that the next
	// repeat goes on.
	Release(ctx context.Context, t Ticket) error

	// Find reads a record. ErrNotFound if there is none. One whose state is Free may be found until a sweep drops it.
	Find(ctx context.Context, id ID) (Record, error)

	// List returns up to limit records whose state is Unknown by now and whose realm begins with within (all of them,
	// where that is empty), oldest first, that come after the record named by after (the zero ID for the first page).
	// ErrNotFound if that record is gone: begin again.
	List(ctx context.Context, within []byte, after ID, limit int) ([]Record, error)

	// Settle ends an unknown operation: with an answer it becomes Completed, without one Free. The fence is
	// compared and raised, and who, when, why, what undid it, before and after are appended to the history in the same step.
	// Where ctx carries the attempt of a guarded command on this store, the settlement commits with it.
	// In this order: ErrNotFound, ErrClock where the clock is outside of s.Window, ErrNotSettleable, or ErrStale if the
	// fence is another by now.
	Settle(ctx context.Context, s Settlement) (Record, error)

	// Sweep turns up to limit completed records past retention into tombstones, and drops up to limit tombstones
	// and free records past theirs (T-3). A freed record stays for a day at least, with its fence: a settlement that
	// rests on an attempt of before must not mean the next one. A Watcher forgets up to limit sightings, and a store
	// with an inbox up to limit markers of messages. Sweep never changes what running or unknown records say; a
	// store may note where it lists them. Any number of sweeps may run at once. A store may turn a record into a tombstone up
	// to Claim.Deadline after the end of its retention, but no later than a quarter of the retention after it.
	// A clock outside of w drops nothing: ErrClock (T-5). With any other error, Swept still says what was done.
	Sweep(ctx context.Context, limit int, w Window) (Swept, error)
}

// Completion is an answer to be recorded and for how long. A store keeps no reference to the answer it is given; the
// body of an answer that it returns is for reading only.
type Completion struct {
	Answer    Answer
	Retention time.Duration // how long it can be replayed
	Tombstone time.Duration // how long after that the key stays refused; 0 keeps no tombstone
}

// Settlement ends an unknown operation.
type Settlement struct {
	ID     ID
	Fence  int64       // of the record the decision rests on
	Answer *Completion // applied, with this answer; nil: not applied, the key becomes free
	Window Window      // what the store's clock may show (T-5)
	Who    string      // who decided; kept
	Why    string      // the reason; kept
	Undone string      // what undid the finished steps of an operation that was not applied; kept
}

// Swept counts what a sweep did.
type Swept struct {
	Tombstones int // completed records turned into tombstones
	Dropped    int // tombstones and free records removed
	Sightings  int // sightings forgotten, of a Watcher
	Messages   int // markers of processed messages removed, of a store with an inbox
	// HeldUp is for how long a transaction that stays open has kept a part of the sweeps from going on; 0 if none does.
	HeldUp time.Duration
}

// Transactor is a Store that can run a handler's statements in the claim's transaction. A policy can ask for Rollback only
// on such a store.
type Transactor interface {
	Store
	// Begin opens a transaction and claims in it, by the rules of Store.Claim. The Tx is nil unless the claim was
	// won. On an error nothing is left behind. ctx bounds only the claim, not the transaction.
	Begin(ctx context.Context, c Claim) (Tx, Claimed, error)

	// InFlight reports whether an attempt holds the key now whose record nobody else can see yet. It claims nothing; a
	// claim of the same key at this moment may get Busy.
	InFlight(ctx context.Context, id ID) (bool, error)
}

// Tx is the transaction of a Rollback attempt. The record in it is visible to others only after Commit.
type Tx interface {
	// Bind returns a context in which the store's users find the transaction.
	Bind(ctx context.Context) context.Context

	// Commit records the answer and commits. With undo the handler's rows are undone first and the answer alone is
	// committed. Whatever it returns, the transaction is over. ctx bounds only how long Commit waits: COMMIT
	// itself is never cancelled.
	//
	// ErrRetryable and ErrAborted: certainly rolled back, the key is free. ErrUnconfirmed: not known. ErrEnded: the
	// handler has ended the transaction, and the record is made unknown.
	Commit(ctx context.Context, c Completion, undo bool) error

	// Rollback undoes everything; the key is free. It may be called at any time, by any goroutine, more than once.
	// It returns ErrRetryable where a statement of the handler had failed with an error that asks for a repeat, and
	// ErrEnded as Commit does.
	Rollback() error
}

// AskedTx is a Tx that knows whether its handler has asked for it. A handler that succeeds without it has written its rows
// outside the transaction, or has written none.
type AskedTx interface {
	Tx
	// Asked reports whether the handler has asked for the transaction, by any of the ways in which the store hands it out.
	Asked() bool
}

// Validator is a Store that can tell whether the server and the schema keep what it promises (F-2).
type Validator interface {
	// Validate returns one error that names everything that is wrong.
	Validate(ctx context.Context) error
}

// Counter is a Store that can count the open records of a principal. A policy can set MaxOpen only on such a store.
type Counter interface {
	Store

	// CountOpen counts the records of a scope that are stored as running or unknown, on all routes and with any lease,
	// without the half-done ones (see [Record.HalfDone]). It stops counting at limit. It may leave out what a transaction
	// has claimed until that commits, and running records whose claim was not Counted.
	CountOpen(ctx context.Context, s Scope, limit int) (int, error)
}

// Surveyor is a Store that can say how many operations need somebody. Metrics ask for it again and again: it should cost as
// much in a table of millions of records as in a small one.
type Surveyor interface {
	Store

	// Survey counts, by route, the operations whose state is Unknown and those that are half-done (see [Record.HalfDone]),
	// if their realm begins with within. It counts the oldest limit of them, and no more. It may leave out a record whose
	// lease has run out until a sweep has seen the record.
	Survey(ctx context.Context, within []byte, limit int) ([]Backlog, error)
}

// Backlog is how many operations of a route need somebody.
type Backlog struct {
	HalfDone bool // they are half-done; else their state is Unknown
	Method   string
	Route    string // the router's pattern
	Count    int
	Oldest   time.Time // when the oldest of them was claimed first, by the store's clock; it needs somebody since later
}

// ScopeKeeper is a Store that keeps how the scopes of its records are made, for all instances and releases (S-4).
type ScopeKeeper interface {
	Store

	// KeepScoping returns the fingerprint that the store has for a namespace. If the store has no fingerprint at all, as a
	// new database, it stores this one. It returns "" if the store has fingerprints, but none for this namespace.
	KeepScoping(ctx context.Context, namespace, fingerprint string) (kept string, err error)
	// AdoptScoping stores a fingerprint for a namespace, and replaces an earlier one.
	AdoptScoping(ctx context.Context, namespace, fingerprint string) error
}

// Watcher is a Store that remembers which commands have arrived, whether or not their keys are enforced. A policy
// can set ShadowUntil or Rekey only on such a store.
type Watcher interface {
	Store

	// Sight remembers a command, and returns what the store had seen of the command's key and principal before. Claims do
	// not depend on sightings. A Watcher only detects: when two commands arrive at the same moment, Sight may return for
	// neither of them that it has seen the other. Sweep removes sightings that are older than their Keep.
	Sight(ctx context.Context, s Sighting) (Seen, error)
}

// Sighting is a command that has arrived.
type Sighting struct {
	ID     ID // of the record that belongs to its key; the zero ID for a command without a valid key
	Scope  Scope
	Hash   CommandHash
	Window time.Duration // how far back the same command under another key counts
	Keep   time.Duration // how long it is remembered, not shorter than Window

	// Tentative: a command with a new key that is Rekeyed is not remembered, because it will be refused. Otherwise a client
	// that sends a new key again and again would be refused for ever.
	Tentative bool
}

// Seen is what a Watcher had seen before a sighting.
type Seen struct {
	// Key: the store has seen this key before, and First is the command that it first came with. A key whose Keep is over
	// counts as new.
	Key   bool
	First CommandHash

	// Rekeyed: within Window, and before this key first came, the same principal sent the same command under another key
	// or without a key. Earlier is the record id of the latest such command; the zero ID if that had no key.
	Rekeyed bool
	Earlier ID
}

// Imported counts the rows of an import.
type Imported struct {
	Added    int // new records
	Replaced int // records that were free; the imported ones took their place (F-4)
	Left     int // rows whose key has a record that is not free, or a running attempt: nothing was changed
	Over     int // rows past retention and tombstone, which were not imported
}

// Importer is a Store that can take over records of another idempotency table.
type Importer interface {
	Store

	// Import adds the records whose id the store does not have; it ignores their Now. It replaces a record whose state is
	// Free, and deletes that record's steps; the fence goes on rising (F-4). Imported records have no Traceparent. It
	// changes no other record, and no key whose attempt is running. Importing again changes nothing. Only Added and
	// Replaced are counted in the result. After an error, some of the records may have been added.
	Import(ctx context.Context, records []Record) (Imported, error)
}

// Eraser is a Store that can erase what it keeps of a principal, before its time: see [Module.Erase].
type Eraser interface {
	Store

	// Erase looks at about limit records behind after, which is the Next of the page before, or the zero ID. A record of the
	// scope that is stored as completed becomes a tombstone: only the status of its answer stays, its steps are deleted, and
	// the tombstone ends when it would have ended without Erase. A free record loses its steps. Records that are stored as
	// running or unknown are named, and not touched. No record of another scope is changed. An erased record does not become
	// free, and a second Complete does not bring its answer back.
	Erase(ctx context.Context, s Scope, after ID, limit int) (ErasedPage, error)
}

// ErasedPage is what a batch of an erasure did.
type ErasedPage struct {
	Records int  // records of which something was erased
	Open    []ID // records that were left because they are open
	Next    ID   // where the next batch begins; the zero ID after the last one
}

// StepKind says where the effect of a step is.
type StepKind uint8

// The kinds of steps.
const (
	DatabaseStep StepKind = iota + 1 // rows, which commit together with the step
	ProviderStep                     // a call to somebody else
)

// String returns "database step" or "provider step".
func (k StepKind) String() string {
	switch k {
	case DatabaseStep:
		return "database step"
	case ProviderStep:
		return "provider step"
	}
	return "step of no kind"
}

// StepRecord is a step as a [Stepper] keeps it.
type StepRecord struct {
	Name     string // unique within the operation
	Kind     StepKind
	Finished bool
	Result   []byte // JSON; set once it is finished
	// Derived are the keys of the calls and events that the handler made while this step was under way, once it is
	// finished. A later attempt does not run the step again, and must not give the same keys to something else.
	Derived []DerivedKey

	Fence      int64     // of the attempt that started it first
	StartedAt  time.Time // when that was, by the store's clock
	FinishedAt time.Time // when its result was recorded, by the store's clock; zero while it is unfinished
	Now        time.Time // the store's clock when this was read
}

// within reports whether the step was started less than d ago. A start that lies ahead says nothing of how long ago it was:
// the clock has jumped, then or now (T-5).
func (s StepRecord) within(d time.Duration) bool {
	age := s.Now.Sub(s.StartedAt)
	return age < d && age > -minClockSkew
}

// Stepper is a Store that keeps the steps of Resume attempts. A policy can ask for Resume only on such a store.
type Stepper interface {
	Store

	// Steps returns the steps of a record as they were started, one after the other, and by name where that was at the
	// same time. If the key was free in between, it returns only the steps since then.
	Steps(ctx context.Context, id ID) ([]StepRecord, error)

	// StartStep records that a provider step is about to be called, or that a step has failed and the next one begins. It
	// returns the step as the store has it, with the store's clock: a step that was started before keeps its fence, its
	// start and its result. For a step that this call has started, StartedAt and Now may be zero. It works after the lease
	// has expired. ErrStale if t is not current; ErrStepsChanged if a step of that name has another kind.
	StartStep(ctx context.Context, t Ticket, s StepRecord) (StepRecord, error)

	// Resumable is [Store].List for Resume attempts whose lease has run out: the next repeat, or Run, goes on with them.
	Resumable(ctx context.Context, within []byte, after ID, limit int) ([]Record, error)

	// HalfDone is [Store].List for Resume operations that are half-done: see [Record.HalfDone].
	HalfDone(ctx context.Context, within []byte, after ID, limit int) ([]Record, error)

	// FinishStep records the result and the derived keys of a step that was started. Finishing again returns nil and
	// changes nothing. It works after the lease has expired. ErrStale if t is not current; ErrNotFound if no step of
	// that name was started.
	FinishStep(ctx context.Context, t Ticket, s StepRecord) error
}

// KeyTimer is a Store that judges timed keys (T-6). Only on such a store can a policy ask for TimedKey.
//
// It keeps floors, times that only rise. A key that has no record, or a freed one, is refused where it was made at its
// floor or before: the claim is Untimely. One floor belongs to all timed keys of a service, and one to each of its routes,
// for UUIDv7 keys that come there without KeyTime.Timed, after the route has left TimedKey. service is the first 8 bytes
// of a [Realm]. If the store drops the record of a timed key, it raises both floors to the key's time in the same step,
// unless the record was freed. So at each moment there is either the record or the floor.
type KeyTimer interface {
	Store

	// KeepAge keeps the age of a route's timed keys, 0 if its keys are not timed, and returns what is kept then: see
	// [KeptAge.Next], which is told the later of both clocks ([Window.Later]). Where the route leaves TimedKey by that, its
	// floor rises to [KeptAge.Floor] in the same step. ErrClock where something is to be written and the store's clock is
	// outside of w.
	KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w Window) (KeptAge, error)
	// RefuseKeysBefore raises all floors of a service so that keys made before t are refused. ErrClock where the store's
	// clock is outside of w.
	RefuseKeysBefore(ctx context.Context, service []byte, t time.Time, w Window) error
}
