package memstore

import (
	"bytes"
	"net/http"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// entry is a row. The headers of its answer are kept apart: a map for each of a million records would weigh more than all
// the rest of them.
type entry struct {
	store.Record
	header     []field
	one        [1]field // what header begins in: most answers have a Content-Type and no more
	steps      []store.StepRecord
	references []reference
	held       bool // by an open segment behind the first seal
}

// reference is a reference of a record, in the order of the others.
type reference struct {
	store.Ref
	at time.Time
}

// field is one line of a header.
type field struct{ name, value string }

// read returns the row as it is at now.
func (e *entry) read(now time.Time) store.Record {
	r := e.Record
	r.Now = now
	if len(e.header) > 0 {
		r.Answer.Header = make(http.Header, len(e.header))
		for _, f := range e.header {
			r.Answer.Header[f.name] = append(r.Answer.Header[f.name], f.value)
		}
	}
	return r
}

// at is the row at now, for questions about its state.
func (e *entry) at(now time.Time) *store.Record {
	e.Now = now
	return &e.Record
}

// isOpen reports that the row is stored as running or unknown.
func (e *entry) isOpen() bool { return e.Stored == store.Running || e.Stored == store.Unknown }

// isIdle reports that the row is a Resume operation that nobody runs.
func (e *entry) isIdle(now time.Time) bool {
	return e.Stored == store.Running && e.Recovery == store.Resume && !now.Before(e.LeaseUntil)
}

// answer keeps a copy of a: the buffer it was captured in may be larger than needed, or be written to again.
func (e *entry) answer(a store.Answer) {
	e.Answer = store.Answer{Status: a.Status, Partial: a.Partial, Body: bytes.Clone(a.Body)}
	e.header = e.one[:0]
	for name, values := range a.Header {
		for _, value := range values {
			e.header = append(e.header, field{name, value})
		}
	}
}

// complete records an answer in an open row.
func (e *entry) complete(c store.Completion, now time.Time) {
	e.answer(c.Answer)
	if now.Before(e.CreatedAt) { // the clock has gone back: what is recorded is not forgotten earlier for it
		now = e.CreatedAt
	}
	e.ExpiresAt = now.Add(c.Retention)
	e.PurgeAt = e.ExpiresAt.Add(c.Tombstone)
	e.Stored = store.Completed
}

// fenceKept is how long the row of a freed key stays, so that the fence of its next attempt is a higher one: a
// settlement that rests on the attempt before, on an operator's open page say, must not mean the new one. It is
// as long as the shortest retention.
const fenceKept = 24 * time.Hour

// free frees the key of an open row.
func (e *entry) free(now time.Time) { e.PurgeAt, e.Stored = now.Add(fenceKept), store.Free }

// ended keeps how the row's attempt has ended.
func (e *entry) ended(ends []byte) {
	if ends != nil {
		e.Ends = bytes.Clone(ends)
	}
}

// step returns a step of the row; nil: there is none of that name.
func (e *entry) step(name string) *store.StepRecord {
	i := slices.IndexFunc(e.steps, func(s store.StepRecord) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &e.steps[i]
}

// start returns a step of the row. It starts the step if no attempt has.
func (e *entry) start(step store.StepRecord, now time.Time) *store.StepRecord {
	if e.step(step.Name) == nil {
		e.steps = append(e.steps, store.StepRecord{Name: step.Name, Kind: step.Kind, Fence: e.Fence, StartedAt: now})
	}
	return e.step(step.Name)
}
