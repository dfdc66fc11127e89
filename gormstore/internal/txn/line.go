package txn

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// line gives places in a pool to those who need one. A line that is longer than the patience of who joins it has no end: its
// members would have waited for nearly all of their time when their turn comes, and each costs memory. So who joins is
// refused at once if those before it will take longer. And while the oldest has waited for longer than a burst lasts, the
// newest is served first: it has its time still before it.
type line struct {
	places  int // for attempts and claims
	reserve int // so many more for segments behind a call

	mu       sync.Mutex
	taken    int
	segments list.List // of *turn, the oldest first; before all others
	others   list.List // likewise
	gap      time.Duration
	freed    time.Time // when the last place got free while others waited; zero: nobody waited
	served   int
	refused  float64 // lately
	counted  time.Time
}

// turn is somebody who waits.
type turn struct {
	line  *line
	since time.Time
	in    *list.List
	at    *list.Element
	given chan struct{} // closed when the place is there
}

const (
	burst       = 100 * time.Millisecond // the order is that of the requests until the oldest has waited so long
	oldestEvery = 4                      // then the oldest has every fourth place: messages wait for as long as it takes
	firstGap    = time.Millisecond       // a guess, until places get free
	lately      = 2 * time.Second        // the half-life of refusals
	gapWeight   = 16                     // of the mean: the last so many places count
	most        = 4                      // times the mean: one that stood still is not taken for what is usual
)

var errTooLong = errors.New("the line for a connection is too long")

// errLeft: nobody waits for the answer any more.
var errLeft = errors.New("the client has left")

func newLine(places, reserve int) *line {
	return &line{places: places, reserve: reserve, gap: firstGap}
}

// take takes a place that is free.
func (l *line) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken >= l.places { // else nobody waits
		return false
	}
	l.taken++
	return true
}

// join takes a place, or a place in the line. It refuses if the line will take longer than ctx.
func (l *line) join(ctx context.Context, segment bool) (*turn, error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &turn{line: l, since: now, in: &l.others, given: make(chan struct{})}
	if segment {
		t.in = &l.segments
	}
	// Who would be the first in line always waits: else a gap that was long once would be believed for ever.
	if end, ok := ctx.Deadline(); ok && !segment && l.taken >= l.places && l.others.Len() > 0 &&
		time.Duration(l.others.Len()+1)*l.gap > end.Sub(now) {
		return nil, l.crowded(now, errTooLong)
	}
	t.at = t.in.PushBack(t)
	l.serve(now)
	return t, nil
}

// wait waits for the turn. If it fails, the place in the line is given up.
func (t *turn) wait(ctx context.Context) error {
	client := store.ClientOf(ctx)
	select {
	case <-t.given:
	case <-ctx.Done():
	case <-client.Done():
	}
	why := ctx.Err()
	switch {
	case client.Err() != nil:
		why = errLeft
	case t.has():
		return nil
	}
	return t.giveUp(fmt.Errorf("all connections for attempts are taken: %w", why))
}

func (t *turn) has() bool {
	select {
	case <-t.given:
		return true
	default:
		return false
	}
}

// giveUp leaves the line, or gives the place back.
func (t *turn) giveUp(why error) error {
	l := t.line
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if t.has() {
		l.taken--
		l.serve(now)
	} else {
		t.in.Remove(t.at)
	}
	if why == nil {
		return nil
	}
	return l.crowded(now, why)
}

// enter is take, or join and wait.
func (l *line) enter(ctx context.Context, segment bool) error {
	if l.take() {
		return nil
	}
	t, err := l.join(ctx, segment)
	if err != nil {
		return err
	}
	return t.wait(ctx)
}

// resize makes the line so many places larger.
func (l *line) resize(by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places += by
	l.serve(time.Now())
}

// leave gives a place back.
func (l *line) leave() {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken--
	switch {
	case l.others.Len() == 0:
		l.freed = time.Time{}
	case l.freed.IsZero():
		l.freed = now
	default:
		l.gap += (min(now.Sub(l.freed), most*l.gap+firstGap) - l.gap) / gapWeight
		l.freed = now
	}
	l.serve(now)
}

// serve gives the free places away; l.mu is held.
func (l *line) serve(now time.Time) {
	for {
		var next *list.Element
		switch first := l.others.Front(); {
		case l.segments.Len() > 0 && l.taken < l.places+l.reserve:
			next = l.segments.Front()
		case first == nil || l.taken >= l.places:
			return
		case now.Sub(first.Value.(*turn).since) > burst && l.served%oldestEvery > 0:
			next = l.others.Back()
		default:
			next = first
		}
		t := next.Value.(*turn)
		t.in.Remove(next)
		l.taken++
		l.served++
		close(t.given)
	}
}

// crowded counts a refusal; l.mu is held.
func (l *line) crowded(now time.Time, why error) error {
	l.refused = l.refused*float64(lately)/float64(lately+now.Sub(l.counted)) + 1
	l.counted = now
	return &store.CrowdedError{After: time.Duration((float64(l.others.Len()) + l.refused) * float64(l.gap)), Why: why}
}
