package inspect

import (
	"encoding/hex"
	"net/url"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// row is one line of a list of operations.
type row struct {
	ID            store.ID
	Mark          mark
	Method, Route string
	Refs          []store.Ref
	Caller        string // the beginning of its hash
	Of            string // the link to the list of this caller
	Created       time.Time
	Age           time.Duration
	Settleable    bool
	From          time.Time   // when it can be settled; zero: it cannot
	GoesOn        string      // of a half-done one
	Note          *store.Note // the last one
	Proposed      bool        // a settlement is proposed, and open
}

// references returns the references of operations. Where the store does not answer for them, a list is shown without them.
func (v *request) references(ids []store.ID) map[store.ID][]store.Ref {
	refs, err := v.operator.References(v.r.Context(), ids...)
	if err != nil {
		v.operator.Failed(v.r.Context(), err)
	}
	return refs
}

// rowsOf shows records with their references.
func (v *request) rowsOf(records []store.Record) (rows []row) {
	ids := make([]store.ID, 0, len(records))
	for _, rec := range records {
		ids = append(ids, rec.ID)
	}
	refs, notes := v.references(ids), v.notesOn(ids)
	for _, rec := range records {
		r := row{ID: rec.ID, Mark: markOf(rec), Method: rec.Method, Route: rec.Route, Refs: refs[rec.ID],
			Caller: hex.EncodeToString(rec.Scope[:4]), Of: v.callers(rec), Created: rec.CreatedAt, Age: rec.Now.Sub(rec.CreatedAt)}
		if of := notes[rec.ID]; len(of) > 0 && of[len(of)-1].Text != "" {
			r.Note = &of[len(of)-1]
		}
		if rec.HalfDone() {
			r.GoesOn = goesOn(v.ops.Outlook(rec))
		}
		if rec.State() == store.Unknown {
			r.From = settleableFrom(rec)
			r.Settleable = !rec.Now.Before(r.From)
			r.Proposed = slices.ContainsFunc(notes[rec.ID], func(n store.Note) bool { return isOpen(rec, n) })
		}
		rows = append(rows, r)
	}
	return rows
}

// callers is the link to what of a record's caller needs somebody, or to all where it is not known.
func (v *request) callers(rec store.Record) string {
	if rec.Ownerless() {
		return v.Prefix + "operations"
	}
	return v.Prefix + "operations?" + url.Values{"caller": {hex.EncodeToString(rec.Scope[:])}}.Encode()
}

// settleableFrom is when an unknown operation can be settled: past lease and deadline.
func settleableFrom(rec store.Record) time.Time {
	if rec.Deadline.After(rec.LeaseUntil) {
		return rec.Deadline
	}
	return rec.LeaseUntil
}
