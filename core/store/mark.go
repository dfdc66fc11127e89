package store

import "time"

// The route of a marked record, until its first repeat says which one it is. No router has such a pattern.
const (
	MarkedMethod = "_OTHER"
	MarkedRoute  = "(marked)"
)

// Marking is the argument of Operations.Mark: operations that the database has lost, and a provider still knows.
type Marking struct {
	IDs    []ID
	Realm  Realm  // begins with the service's, and the rest is zero: only supervisors see the records
	Window Window // what the store's clock may show (T-5)
	Who    string // who decided; kept
	Why    string // the reason; kept
}

// Record is the record of a marked operation, made at now: it is unknown, and nobody knows its principal and its command.
func (m Marking) Record(id ID, now time.Time) Record {
	return Record{Ticket: Ticket{ID: id, Fence: 1}, Realm: m.Realm, Method: MarkedMethod, Route: MarkedRoute, Recovery: Park,
		Hash: CommandHash{Version: UnknownHash}, Stored: Unknown, Attempts: 1, CreatedAt: now, LeaseUntil: now, Deadline: now,
		Now: now}
}

// Ownerless reports whether a record was marked, and had no repeat yet: see Operations.Adopt. It is false of a record that a
// store has returned in part (see Claim.Lean).
func (r *Record) Ownerless() bool { return r.Route == MarkedRoute && r.Scope == Scope{} }
