package store

import "time"

// Query selects operations by their state, and also by realm, principal, route and time of creation. A Query that names no
// state selects nothing.
type Query struct {
	Unknown   bool // those whose state is Unknown
	Resumable bool // Resume operations whose lease has run out: the next repeat, or Run, continues them
	HalfDone  bool // of these, the half-done ones: see [Record.HalfDone]

	Within []byte // the beginning of the realm; empty: any realm (S-5)
	Scope  Scope  // of the principal; zero: any principal
	Method string // of the route; together with Route
	Route  string // the router's pattern; "": any route
	From   time.Time
	Until  time.Time // created at From or later and before Until; zero: any time
	Limit  int       // how many at most

	// Only for List and Referred:
	Refs  []Ref  // one or two: the operation has a reference like each; Name "": under any name
	After Cursor // begin behind this place, which may be that of an operation that is gone; zero: begin with the first

	Newest    bool // only for List: the newest first; otherwise the oldest first
	Completed bool // only for Referred: those whose state is Completed; otherwise in any state
}

// Selects reports whether a record belonged to the query at r.Now, wherever a page begins.
func (q Query) Selects(r Record) bool {
	resumable := r.Stored == Running && r.Recovery == Resume && r.LeaseExpired()
	return (q.Unknown && r.State() == Unknown || q.Resumable && resumable || q.HalfDone && r.HalfDone()) &&
		r.Realm.Within(q.Within) && (q.Scope == Scope{} || r.Scope == q.Scope) &&
		(q.Route == "" || r.Method == q.Method && r.Route == q.Route) &&
		!r.CreatedAt.Before(q.From) && (q.Until.IsZero() || r.CreatedAt.Before(q.Until))
}

// Cursor is the place of an operation in the order of creation, or in that of Referred.
type Cursor struct {
	CreatedAt time.Time // of Referred: when the reference was attached
	ID        ID        // decides between operations of one moment
}

// Cursor returns the place of a record.
func (r Record) Cursor() Cursor { return Cursor{r.CreatedAt, r.ID} }

// Hour is what happened in one hour.
type Hour struct {
	Came    int // operations that were created in it, and have been settled since or need somebody
	Settled int // operations that were settled in it: as applied, or as not applied
}

// Count is how many operations of a route a Query selects, by their age at Now.
type Count struct {
	HalfDone bool // Resume operations without an attempt at the moment; otherwise their state is Unknown
	Method   string
	Route    string    // the router's pattern
	Count    int       // all of them
	Hour     int       // of these, created an hour ago or earlier
	Day      int       // of these, created 24 hours ago or earlier
	Oldest   time.Time // when the oldest of them was created, by the store's clock
	Now      time.Time // the store's clock
}
