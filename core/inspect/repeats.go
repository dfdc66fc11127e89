package inspect

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// maxRepeats is how many keys are remembered, and shownRepeats how many the overview shows.
const maxRepeats, shownRepeats = 1000, 10

// repeat is an operation whose key met in_flight or outcome_unknown in this process.
type repeat struct {
	ID            store.ID
	Method, Route string
	Count         int
	Code          core.Code // what the last one was told
	Last          time.Time // by this process's clock
}

// repeats are the last ones of them.
type repeats struct {
	of  map[store.ID]*list.Element
	all list.List // of *repeat, the last one first
}

// see counts an event, if it is one of those.
func (s *repeats) see(e core.Event, now time.Time) {
	if e.Kind != core.EventRefused || e.Operation == (store.ID{}) ||
		e.Code != core.CodeInFlight && e.Code != core.CodeOutcomeUnknown {
		return
	}
	at := s.of[e.Operation]
	if at == nil {
		if s.of == nil {
			s.of = map[store.ID]*list.Element{}
		}
		if len(s.of) >= maxRepeats {
			delete(s.of, s.all.Remove(s.all.Back()).(*repeat).ID)
		}
		at = s.all.PushFront(&repeat{ID: e.Operation})
		s.of[e.Operation] = at
	}
	s.all.MoveToFront(at)
	r := at.Value.(*repeat)
	r.Method, r.Route, r.Code, r.Last = e.Method, e.Route, e.Code, now
	r.Count++
}

// repeatsOf returns what this process has seen of an operation, nil if it has seen nothing.
func (n *Numbers) repeatsOf(id store.ID) *repeat {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.repeats.of[id]
	if at == nil {
		return nil
	}
	seen := *at.Value.(*repeat)
	return &seen
}

// mostRepeated returns the ones that came most often, of those the last one first.
func (n *Numbers) mostRepeated() []repeat {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]repeat, 0, n.repeats.all.Len())
	for at := n.repeats.all.Front(); at != nil; at = at.Next() {
		all = append(all, *at.Value.(*repeat))
	}
	slices.SortStableFunc(all, func(a, b repeat) int { return cmp.Compare(b.Count, a.Count) })
	return all[:min(shownRepeats, len(all))]
}
