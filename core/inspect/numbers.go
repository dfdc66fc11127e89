package inspect

import (
	"context"
	"sync"
	"time"

	"github.com/auth19/idem/core"
)

// minutes is how far back Numbers count.
const minutes = 60

// Numbers counts the events of this process in the last hour, by the minute, and who repeats. It is a [core.Observer]: make
// it the module's Observer, or call its Observe from the observer that the module has. It keeps only numbers, and the ids of
// the last 1,000 operations whose key met in_flight or outcome_unknown.
type Numbers struct {
	now   func() time.Time
	began time.Time

	mu      sync.Mutex
	ring    [minutes]minute
	repeats repeats
}

// minute is what was counted in one minute.
type minute struct {
	since  int64 // minutes since 1970
	events map[core.EventKind]int
}

// NewNumbers returns numbers that are all zero.
func NewNumbers() *Numbers { return &Numbers{now: time.Now, began: time.Now()} }

// Observe implements [core.Observer].
func (n *Numbers) Observe(_ context.Context, e core.Event) {
	now := n.now()
	current := now.Unix() / 60
	n.mu.Lock()
	defer n.mu.Unlock()
	n.repeats.see(e, now)
	m := &n.ring[current%minutes]
	if m.since != current {
		*m = minute{since: current, events: map[core.EventKind]int{}}
	}
	m.events[e.Kind]++
}

// lastHour returns the sums of the last hour, and for each minute how many attempts began and how many events deserved
// attention, the oldest first.
func (n *Numbers) lastHour() (sums map[core.EventKind]int, attempts, warnings [minutes]int) {
	current := n.now().Unix() / 60
	sums = map[core.EventKind]int{}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range minutes {
		since := current - minutes + 1 + int64(i)
		m := n.ring[since%minutes]
		if m.since != since {
			continue
		}
		attempts[i] = m.events[core.EventClaimed]
		for kind, count := range m.events {
			sums[kind] += count
			if kind.IsWarning() {
				warnings[i] += count
			}
		}
	}
	return sums, attempts, warnings
}
