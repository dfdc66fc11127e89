package core

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// outage sends the events of a store that fails requests. A store that is down fails all of them, so only one event a second
// is sent: the first at once, and then the last of each second, with how many there were.
type outage struct {
	mu     sync.Mutex
	paused bool // an event was sent less than outageEvery ago
	count  int  // of requests since then
	last   func(count int)
}

const outageEvery = time.Second

// storeFailed sends e, the event of a request that the store has failed. A store that has too much to do has not failed.
func (m *Module) storeFailed(ctx context.Context, e Event, err error) {
	if errors.Is(err, store.ErrCrowded) {
		return
	}
	e.Kind, e.Err = EventFailed, err
	tell := func(count int) {
		e.Count = count
		m.observe(ctx, e)
	}
	if m.outage.takes(tell) {
		return
	}
	tell(1)
}

// takes reports whether an event was sent just before. Then tell may be called later.
func (o *outage) takes(tell func(count int)) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paused {
		o.count++
		o.last = tell
		return true
	}
	o.paused = true
	time.AfterFunc(outageEvery, o.resume)
	return false
}

// resume sends what has come in the pause.
func (o *outage) resume() {
	o.mu.Lock()
	tell, count := o.last, o.count
	o.last, o.count = nil, 0
	if o.paused = tell != nil; o.paused {
		time.AfterFunc(outageEvery, o.resume)
	}
	o.mu.Unlock()
	if tell != nil {
		tell(count)
	}
}
