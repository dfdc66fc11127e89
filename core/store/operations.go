package store

import (
	"context"
	"errors"
	"time"
)

// Operations is a Store whose operations can be listed and settled, looked through and counted, taken over from another
// table, and erased. core.New takes no other store, because with every recovery an operation can become unknown, and then
// somebody has to settle it. Unless a method says otherwise, its cost depends on the number of open operations, not on the
// number of records.
type Operations interface {
	Store

	// Ready reports whether the store can take commands: its tables have at least what this release needs, its self-test has
	// passed, and its server takes writes. It runs the self-test if none has run (F-8). Then it asks one question, over no
	// connection that an attempt could get, and waits for no attempt. Errors: [ErrSchema]; [ErrNoWrites]; [ErrUnfit]. Any
	// other error means that the store did not answer.
	Ready(ctx context.Context) error

	// List returns up to q.Limit records that a Query selects by now, whether a sweep has seen them or not, in the order of
	// their creation.
	List(ctx context.Context, q Query) ([]Record, error)

	// Settle ends an unknown operation: with an answer it becomes Completed, without one Free. In the same step it
	// compares and raises the fence, and adds a SettlementRecord to the history. If ctx has a transaction of this store, as
	// in a Rollback attempt, the settlement commits with it. Errors, in this order: ErrNotFound; ErrClock if the clock is
	// outside of s.Window; ErrNotSettleable; ErrStale if the fence differs, or s.Proposal cannot be carried out.
	Settle(ctx context.Context, s Settlement) (Record, error)

	// Count counts the oldest q.Limit operations that a Query selects, wherever a page begins. It returns one line for each
	// state and route, in any order.
	Count(ctx context.Context, q Query) ([]Count, error)

	// Flow says what happened to the operations of a realm, hour by hour: first the one that ends now, by the store's clock. It
	// may look at the last 10,000 settlements alone, and leave out those of operations without a record.
	Flow(ctx context.Context, within []byte, hours int) ([]Hour, error)

	// CountOpen counts the records of a scope that are stored as running or unknown, on all routes and with any lease,
	// without the half-done ones (see [Record.HalfDone]). It stops counting at limit. It may leave out the claim of a
	// transaction that has not committed.
	CountOpen(ctx context.Context, s Scope, limit int) (int, error)

	// OpenSteps returns the provider steps of up to limit open operations, in any order: those that are stored as running or
	// unknown. An operation without such a step has one line, without a name.
	OpenSteps(ctx context.Context, within []byte, limit int) ([]OpenStep, error)

	// Near returns up to limit ids of records in their order.
	Near(ctx context.Context, within []byte, n Near, limit int) ([]ID, error)

	// LastAnswered returns a record of a route with a recorded success (2xx, not Partial): the last one that was claimed, of
	// those that the store finds without looking far. ErrNotFound if it finds none.
	LastAnswered(ctx context.Context, within []byte, method, route string) (Record, error)

	// History returns the settlements of an operation, oldest first. It includes those of earlier lives of its key, and
	// keeps them after the record was dropped.
	History(ctx context.Context, id ID) ([]SettlementRecord, error)

	// Intervene changes a Resume operation that nobody runs, by an operator's word, and adds a SettlementRecord to the history
	// . Owner and fence stay, so that a late owner may still complete. If ctx has a transaction of this store, it
	// commits with it. Errors, in this order: ErrNotFound; ErrClock if the clock is outside of i.Window; ErrNotSettleable if
	// the operation is not half-done; ErrStale if the fence differs.
	Intervene(ctx context.Context, i Intervention) (Record, error)

	// LastSettled returns the last limit settlements of operations whose realm begins with within, the newest first: those
	// by a name (SettlementRecord.Who), or by any operator if by is "". Those of operations without a record may be missing.
	LastSettled(ctx context.Context, within []byte, by string, limit int) ([]SettledOperation, error)

	// Refer attaches a reference to an operation of a realm. The same reference again changes nothing. If ctx has an open
	// transaction of this store, the reference commits with it. Otherwise it is durable when Refer returns. ErrReferences if
	// the operation has MaxReferences others; ErrStale if it has no record, unless its transaction is still open.
	//
	// A reference stays until its record becomes a tombstone, is erased, or is dropped. It may stay while its key is free, and
	// during the next operation of that key.
	Refer(ctx context.Context, id ID, realm Realm, ref Ref) error

	// References returns the references of operations, those of each in the order in which they were attached.
	References(ctx context.Context, ids []ID) (map[ID][]Ref, error)

	// Referred returns up to q.Limit operations whose realm begins with q.Within, and which have a reference like each of
	// q.Refs: the one whose reference like the first was attached last comes first, each comes once. q.From and q.Until are
	// about when that was. Of q it uses nothing else but After and Completed. What it costs does not depend on how many
	// references there are: it may stop before a page is full.
	Referred(ctx context.Context, q Query) (ReferredPage, error)

	// Annotate adds a note to an operation that is stored as running or unknown, at the store's time. Notes are only appended.
	// The same Token again changes nothing. ErrNotFound if the operation has no record; ErrNotSettleable if it is not open.
	Annotate(ctx context.Context, n Note) error

	// Notes returns the notes of operations, those of each oldest first. It includes those of earlier lives of a key, and keeps
	// them after the record was dropped. When the record becomes a tombstone, is erased, or is dropped, their Text goes.
	Notes(ctx context.Context, ids []ID) (map[ID][]Note, error)

	// Import adds the records whose id the store does not have; it ignores their Now. It replaces a record whose state is
	// Free, and deletes that record's steps; the fence continues to rise (F-4). Imported records have no Traceparent. Import
	// changes no other record, and no key whose attempt is running. Such a key is counted in Running: one that is held by an
	// attempt that cannot be seen, or whose record is stored as running, whatever its lease. A second import of the same
	// records changes nothing. The result has only Added, Replaced and Running. After an error, some of the records may have
	// been added.
	Import(ctx context.Context, records []Record) (Imported, error)

	// Mark adds a [Marking.Record] for each id, as Import does, at the store's clock, and a SettlementRecord to the history for
	// each that was added or replaced. An id that has a record is left alone, and not counted. If ctx has a transaction of this
	// store, the marks commit with it. ErrClock if the clock is outside of m.Window.
	Mark(ctx context.Context, m Marking) (Imported, error)

	// Adopt gives an Ownerless record the principal, the realm and the route of a claim, and says that its key is a timed one
	// if c.Key.Timed. No other record is changed.
	Adopt(ctx context.Context, c Claim) error

	// Erase reads about limit records behind after, which is the Next of the page before, or the zero ID. A record of the
	// scope that is stored as completed becomes a tombstone: only the status of its answer stays, its steps are deleted, and
	// the tombstone ends when it would have ended without Erase. The steps of a free record are deleted. Records that are
	// stored as running or unknown are returned in Open, and not changed. No record of another scope is changed. An erased
	// record does not become free, and a second End does not restore its answer.
	Erase(ctx context.Context, s Scope, after ID, limit int) (ErasedPage, error)
}

// Settlement is the argument of Operations.Settle: it ends an unknown operation.
type Settlement struct {
	ID     ID
	Fence  int64       // of the record that the decision is about
	Answer *Completion // applied, with this answer; nil: not applied, the key becomes free
	Window Window      // what the store's clock may show (T-5)
	Who    string      // who decided; kept
	Why    string      // the reason; kept
	Undone string      // what undid the finished steps of an operation that was not applied; kept

	// Proposal is the token of the proposal that is carried out: see [Proposals]. In the same step it becomes CarriedOut. It
	// has to be open, about Fence, and of another Who. Whatever fails, it stays as it was. The zero token: there is none.
	Proposal [16]byte
}

// Intervention is what an operator does with a half-done operation: it is parked, or its pause ends.
type Intervention struct {
	ID     ID
	Fence  int64         // of the record that the operator has seen
	GiveUp bool          // it is parked, so that it can be settled. Otherwise its pause ends
	Pause  time.Duration // of its claims: from now on Record.NextAttempt(Pause) has passed
	Window Window        // what the store's clock may show (T-5)
	Who    string        // who decided; kept
	Why    string        // the reason; kept
}

// OpenStep is a provider step of an open operation.
type OpenStep struct {
	ID   ID
	Step string // its name; "": the operation has no provider step
}

// Near selects ids by the digits that a person has.
type Near struct {
	First, Last ID
	End         []byte // their last bytes; empty: any
}

// SettlementRecord is one line of the history of settlements. One of a mark was Free before, and is Unknown after it.
// One of a refusal of keys has no states, and its AfterFence is the time in microseconds: see RefusedBefore.
type SettlementRecord struct {
	At          time.Time // by the store's clock
	Who         string
	Why         string
	Undone      string // what undid the finished steps; "" where nothing had to be undone
	BeforeFence int64
	BeforeState State
	// BeforeStored is what the record said: Running if the lease of the last attempt had run out (or if a Rollback handler had
	// committed the transaction itself), Unknown if the attempt had ended without proof of what it did.
	BeforeStored State
	AfterFence   int64
	AfterState   State // Completed: settled as applied. Free: as not applied. Running: tried again. Unknown: given up, marked
	AfterStatus  int   // of the answer; 0 without one
}

// SettledOperation is a settlement with the operation that was settled.
type SettledOperation struct {
	SettlementRecord
	ID     ID
	Method string // of the record's last attempt, as Route is
	Route  string
}

// Marked reports whether the line is that of a mark.
func (r SettlementRecord) Marked() bool { return r.BeforeStored == Free }

// RefusedBefore is the time of a refusal: keys made before it were refused from then on. It is the zero time of other lines.
func (r SettlementRecord) RefusedBefore() time.Time {
	if r.AfterState != 0 {
		return time.Time{}
	}
	return time.UnixMicro(r.AfterFence)
}

// The limits of references.
const (
	MaxReferences     = 16  // of an operation
	MaxReferenceName  = 64  // bytes
	MaxReferenceValue = 255 // bytes
)

// ErrReferences means that an operation has [MaxReferences] references already. The new one was not kept.
var ErrReferences = errors.New("idem: the operation has as many references as it can have")

// Ref is a reference of an operation: what people outside know it by. See core.Reference.
type Ref struct {
	Name  string // "charge"
	Value string // "ch_3Nk9"
}

// ReferredPage is what Referred has found.
type ReferredPage struct {
	IDs  []ID
	Next Cursor // behind which it goes on; zero: there are no more
}

// Imported counts the rows of an import.
type Imported struct {
	Added    int // new records
	Replaced int // records that were free; the imported ones took their place (F-4)
	Left     int // rows that were not imported, because their key has a record that is not free
	Over     int // rows that were not imported: their Past.ExpiresAt, retention and tombstone are over
	// Running counts the rows that were not imported, because an attempt of their key has not ended. It may give the key back,
	// and then nothing would protect it (F-4). An attempt whose process died counts until its operation is gone on with, or
	// settled.
	Running int
}

// Done reports whether the import is over: no key was added or replaced, and none has an attempt that has not ended. Until
// then import the same rows again (F-4).
func (i Imported) Done() bool { return i.Added == 0 && i.Replaced == 0 && i.Running == 0 }

// ErasedPage is the result of one batch of an erasure.
type ErasedPage struct {
	Records int  // records of which something was erased
	Open    []ID // records that were not erased because they are open
	Next    ID   // where the next batch begins; the zero ID after the last one
}
