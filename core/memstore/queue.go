package memstore

import (
	"container/heap"
	"time"

	"github.com/auth19/idem/core/store"
)

// queued reports whether rows of a stored state wait for a sweep. Running and unknown rows never do (T-3).
func queued(s store.State) bool { return s == store.Completed || s == store.Expired || s == store.Free }

// due is when a sweep has something to do with the row: an answer is kept for its retention, what is left of it until
// its tombstone ends, the row of a freed key for as long as its fence is remembered.
func (e *entry) due() time.Time {
	if e.Stored == store.Completed {
		return e.ExpiresAt
	}
	return e.PurgeAt
}

// queue is a heap of rows: the row that is due first is on top. So the cost of a sweep depends on the rows it finds, not on
// all rows.
type queue []*entry

func (q *queue) add(e *entry)    { heap.Push((*rows)(q), e) }
func (q *queue) remove(e *entry) { heap.Remove((*rows)(q), e.index) }

// first returns the row that is due first, nil if there is none.
func (q queue) first() *entry {
	if len(q) == 0 {
		return nil
	}
	return q[0]
}

// due returns the row that is due first if it is due at now, else nil.
func (q queue) due(now time.Time) *entry {
	if e := q.first(); e != nil && !now.Before(e.due()) {
		return e
	}
	return nil
}

// rows implements [heap.Interface] for a queue.
type rows []*entry

func (r rows) Len() int           { return len(r) }
func (r rows) Less(i, j int) bool { return r[i].due().Before(r[j].due()) }

func (r rows) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].index, r[j].index = i, j
}

func (r *rows) Push(x any) {
	e := x.(*entry)
	e.index = len(*r)
	*r = append(*r, e)
}

func (r *rows) Pop() any {
	last := len(*r) - 1
	e := (*r)[last]
	(*r)[last] = nil // let the collector have it
	*r = (*r)[:last]
	return e
}
