package core

import (
	"context"
	"time"
)

// Inspectable is a Store whose operations an operator can look through. Package inspect works only on such a store. An
// operation needs somebody if its state is Unknown, or if it is half-done (see [Record.HalfDone]). What these methods cost
// depends on how many operations are open, not on how many records there are.
type Inspectable interface {
	Store

	// Unsettled returns up to q.Limit operations that need somebody, oldest first. Unlike [Store].List it needs no record of
	// the page before.
	Unsettled(ctx context.Context, q UnsettledQuery) ([]Record, error)

	// CountUnsettled counts the operations that need somebody whose realm begins with within (all of them, where that is
	// empty): one line for each state and route, in any order. It counts the oldest limit operations, and no others.
	CountUnsettled(ctx context.Context, within []byte, limit int) ([]UnsettledCount, error)

	// History returns the settlements of an operation, oldest first: also those of earlier lives of its key, and after its
	// record was dropped.
	History(ctx context.Context, id ID) ([]SettlementRecord, error)
}

// UnsettledQuery selects operations that need somebody. At least one of Unknown and HalfDone is set.
type UnsettledQuery struct {
	Within   []byte // what the realm begins with; empty: any (S-5)
	Unknown  bool   // those whose state is Unknown
	HalfDone bool   // those that are half-done
	Method   string // of the route; together with Route
	Route    string // the router's pattern; "": any route
	From     time.Time
	Until    time.Time // created at From or later and before Until; zero: any time
	After    Place     // begin behind this place; zero: begin with the oldest
	Limit    int
}

// Place is the place of an operation in the order of creation. It exists whether or not the operation still does.
type Place struct {
	CreatedAt time.Time
	ID        ID // decides between operations of one moment
}

// UnsettledCount is how many operations of a route need somebody, by their age at Now.
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
	AfterFence  int64
	AfterState  State // Completed: settled as applied. Free: as not applied
	AfterStatus int   // of the answer; 0 without one
}
