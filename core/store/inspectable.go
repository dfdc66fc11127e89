package store

import (
	"context"
	"time"
)

// Inspectable is a Store whose operations an operator can look through. Package inspect works only on such a store. An
// operation needs attention if its state is Unknown, or if it is half-done (see [Record.HalfDone]). The cost of these
// methods depends on the number of open operations, not on the number of records.
type Inspectable interface {
	Store

	// Unsettled returns up to q.Limit operations that need attention, oldest first, or newest first. Unlike [Store].List, it
	// does not need the last record of the page before.
	Unsettled(ctx context.Context, q UnsettledQuery) ([]Record, error)

	// CountUnsettled counts the operations that Unsettled would return, wherever q.After is. It returns one line for each
	// state and route, in any order. It counts only the oldest q.Limit operations.
	CountUnsettled(ctx context.Context, q UnsettledQuery) ([]UnsettledCount, error)

	// OpenSteps returns the provider steps of up to limit open operations, in any order: those that are stored as running or
	// unknown. An operation without such a step has one line, without a name.
	OpenSteps(ctx context.Context, within []byte, limit int) ([]OpenStep, error)

	// Near returns up to limit ids of records in their order.
	Near(ctx context.Context, within []byte, n Near, limit int) ([]ID, error)

	// History returns the settlements of an operation, oldest first. It includes those of earlier lives of its key, and
	// keeps them after the record was dropped.
	History(ctx context.Context, id ID) ([]SettlementRecord, error)

	// LastSettled returns the last limit settlements of operations whose realm begins with within, the newest first: those
	// by a name (SettlementRecord.Who), or by any operator if by is "". Those of operations without a record may be missing.
	LastSettled(ctx context.Context, within []byte, by string, limit int) ([]SettledOperation, error)

	// LastAnswered returns a record of a route with a recorded success (2xx, not Partial): the last one that was claimed, of
	// those that the store finds without looking far. ErrNotFound if it finds none.
	LastAnswered(ctx context.Context, within []byte, method, route string) (Record, error)
}

// SettledOperation is a settlement with the operation that was settled.
type SettledOperation struct {
	SettlementRecord
	ID     ID
	Method string // of the record's last attempt, as Route is
	Route  string
}

// UnsettledQuery selects operations that need attention. At least one of Unknown and HalfDone is set.
type UnsettledQuery struct {
	Within   []byte // the beginning of the realm; empty: any realm (S-5)
	Unknown  bool   // those whose state is Unknown
	HalfDone bool   // those that are half-done
	Method   string // of the route; together with Route
	Route    string // the router's pattern; "": any route
	Scope    Scope  // of the principal; zero: any principal
	From     time.Time
	Until    time.Time // created at From or later and before Until; zero: any time
	Newest   bool      // first; otherwise the oldest first
	After    Place     // begin behind this place; zero: begin with the first
	Limit    int
}

// Place is the place of an operation in the order of creation. It stays valid after the operation is gone.
type Place struct {
	CreatedAt time.Time
	ID        ID // decides between operations of one moment
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

// UnsettledCount is how many operations of a route need attention, by their age at Now.
type UnsettledCount struct {
	HalfDone bool // half-done; otherwise Unknown
	Method   string
	Route    string
	Count    int // all of them
	Hour     int // of these, created an hour ago or earlier
	Day      int // of these, created 24 hours ago or earlier
	Oldest   time.Time
	Now      time.Time // the store's clock
}

// SettlementRecord is one line of the history of settlements.
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
	AfterState   State // Completed: settled as applied. Free: as not applied
	AfterStatus  int   // of the answer; 0 without one
}
