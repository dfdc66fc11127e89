package memstore

import (
	"bytes"
	"net/http"
	"time"

	"github.com/auth19/idem/core/store"
)

// entry is a row. The headers of its answer are kept apart: a map for each of a million records would weigh more than
// all the rest of them.
type entry struct {
	store.Record
	header []field
	one    [1]field // what header begins in: most answers have a Content-Type and no more
	steps  []store.StepRecord
	held   bool // by an open segment behind the first seal

	references []reference
	index      int // in the queue of its stored state
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

// isIdle reports that the row is a Resume operation that nobody runs.
func (e *entry) isIdle(now time.Time) bool {
	return e.Stored == store.Running && e.Recovery == store.Resume && !now.Before(e.LeaseUntil)
}

// state is the state of the row at now.
func (e *entry) state(now time.Time) store.State {
	e.Now = now
	return e.State()
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

// become moves the row to another stored state. For a queued state the time it is due must be set before.
func (s *Store) become(e *entry, to store.State) {
	e.Stored = to
	if queued(to) {
		s.queues[to].add(e)
	}
}

// unqueue is called before the state of a row, or the time it is due, changes.
func (s *Store) unqueue(e *entry) {
	if queued(e.Stored) {
		s.queues[e.Stored].remove(e)
	}
}

// complete records an answer in a row that is running or unknown.
func (s *Store) complete(e *entry, c store.Completion, now time.Time) {
	e.answer(c.Answer)
	if now.Before(e.CreatedAt) { // the clock has gone back: what is recorded is not forgotten earlier for it
		now = e.CreatedAt
	}
	e.ExpiresAt = now.Add(c.Retention)
	e.PurgeAt = e.ExpiresAt.Add(c.Tombstone)
	s.become(e, store.Completed)
	s.closed(e)
}

// fenceKept is how long the row of a freed key stays, so that the fence of its next attempt is a higher one: a
// settlement that rests on the attempt before, on an operator's open page say, must not mean the new one. It is
// as long as the shortest retention.
const fenceKept = 24 * time.Hour

// free frees the key of a row that is running or unknown.
func (s *Store) free(e *entry, now time.Time) {
	e.PurgeAt = now.Add(fenceKept)
	s.become(e, store.Free)
	s.closed(e)
}
