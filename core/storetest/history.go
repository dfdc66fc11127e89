package storetest

import (
	"cmp"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/auth19/idem/core/store"
)

// history is what the workers of a stress round saw happen to its keys. It is written during the round and judged after
// it: only then the fences tell in which order things took effect.
type history struct {
	mu      sync.Mutex
	now     int // ticks of a logical clock
	wins    map[store.ID][]win
	answers map[store.ID][]answer
	frees   map[store.ID][]store.Ticket
	steps   map[store.ID][]step
}

func newHistory() *history {
	return &history{wins: map[store.ID][]win{}, answers: map[store.ID][]answer{}, frees: map[store.ID][]store.Ticket{},
		steps: map[store.ID][]step{}}
}

// step is a step as it was read while an attempt was current.
type step struct {
	known int
	fence int64 // of the attempt
	store.StepRecord
}

// win is a claim that was won: when it was asked for, and its row.
type win struct {
	begun int
	store.Record
}

// answer is an answer that a worker was told is recorded, or has read: at what time, on which fence.
type answer struct {
	known int
	fence int64
	text  string
}

func (h *history) lock() func() {
	h.mu.Lock()
	h.now++
	return h.mu.Unlock
}

// tick returns the time before a call is made.
func (h *history) tick() int {
	defer h.lock()()
	return h.now
}

func (h *history) won(begun int, r store.Record) {
	defer h.lock()()
	h.wins[r.ID] = append(h.wins[r.ID], win{begun, r})
}

func (h *history) answered(t store.Ticket, text string) {
	defer h.lock()()
	h.answers[t.ID] = append(h.answers[t.ID], answer{h.now, t.Fence, text})
}

// saw notes the answer of a row that was read.
func (h *history) saw(r store.Record) {
	if r.State() == store.Completed {
		h.answered(r.Ticket, string(r.Answer.Body))
	}
}

// freed notes that the attempt was released or settled as not applied.
func (h *history) freed(t store.Ticket) {
	defer h.lock()()
	h.frees[t.ID] = append(h.frees[t.ID], t)
}

// read notes a step that was read while the attempt was current.
func (h *history) read(t store.Ticket, s store.StepRecord) {
	defer h.lock()()
	h.steps[t.ID] = append(h.steps[t.ID], step{h.now, t.Fence, s})
}

func (h *history) check(t *testing.T) {
	t.Helper()
	for id := range h.steps {
		h.checkSteps(t, id)
	}
	for id := range h.answers {
		h.checkAnswers(t, id)
	}
	for id := range h.wins {
		h.checkWins(t, id)
	}
}

// checkAnswers: a key has one answer for ever, and no attempt after it.
func (h *history) checkAnswers(t *testing.T, id store.ID) {
	t.Helper()
	first := h.answers[id][0]
	for _, a := range h.answers[id] {
		assert.Equal(t, first.text, a.text, "the answer of %s changed", id)
		assert.Equal(t, first.fence, a.fence, "%s was answered by two attempts", id)
	}
	for _, w := range h.wins[id] {
		assert.LessOrEqual(t, w.Fence, first.fence, "%s was run again after it had been answered", id)
		if w.begun > first.known {
			assert.Fail(t, "a key was won that had been answered", "%s, fence %d", id, w.Fence)
		}
	}
}

// checkWins: each fence was won once. Each attempt but the last was freed, or was taken over by a Resume attempt of the
// same command.
func (h *history) checkWins(t *testing.T, id store.ID) {
	t.Helper()
	wins := slices.SortedFunc(slices.Values(h.wins[id]), func(a, b win) int { return cmp.Compare(a.Fence, b.Fence) })
	for i := range len(wins) - 1 {
		was, next := wins[i].Record, wins[i+1].Record
		freed := slices.ContainsFunc(h.frees[id], func(f store.Ticket) bool {
			return f.Fence >= was.Fence && f.Fence < next.Fence
		})
		takenOver := was.Recovery == store.Resume && next.Recovery == store.Resume && was.Hash == next.Hash
		assert.NotEqual(t, was.Fence, next.Fence, "two attempts of %s have one fence", id)
		assert.True(t, freed || takenOver, "%s: attempt %d (%s) was neither freed nor rightly taken over by %d (%s)",
			id, was.Fence, was.Recovery, next.Fence, next.Recovery)
	}
}

// checkSteps: a step belongs to one operation, has one first start there, and keeps its result once it is finished.
func (h *history) checkSteps(t *testing.T, id store.ID) {
	t.Helper()
	results := map[int64]step{} // by the fence of the first start
	for _, s := range h.steps[id] {
		assert.LessOrEqual(t, s.Fence, s.fence, "a step of %s was started by an attempt to come", id)
		for _, f := range h.frees[id] {
			assert.False(t, s.Fence <= f.Fence && f.Fence < s.fence,
				"attempt %d of %s found a step of attempt %d, and the key was free in between", s.fence, id, s.Fence)
		}
		result, finished := results[s.Fence]
		switch {
		case s.Finished && finished:
			assert.Equal(t, string(result.Result), string(s.Result), "the result of a step of %s changed", id)
		case s.Finished:
			results[s.Fence] = s
		case finished && s.fence > result.fence:
			assert.Fail(t, "a finished step is unfinished", "%s, attempt %d after %d", id, s.fence, result.fence)
		}
	}
}
