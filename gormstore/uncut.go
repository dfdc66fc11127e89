package gormstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/auth19/idem/core"
)

// uncut runs the writes whose effect a repeat is told of without another write, and never cancels them: a server that is
// asked to give up while it waits for its standby commits all the same, and a repeat would be answered with what a
// failover loses (X-4, F-2).
type uncut struct {
	mu      sync.Mutex
	running map[core.Ticket]*tries
}

// tries are the tries of one write. A second one goes over another connection, in case that of the first is dead; a third
// would only wait for the row as well.
type tries struct {
	running  int
	answered bool
	over     chan struct{} // closed when one of them was answered by the store
	err      error         // that answer
}

const maxUncut = 2

// run runs the write of t and waits for its end as long as ctx allows; the write goes on if it takes longer.
func (u *uncut) run(ctx context.Context, t core.Ticket, write func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, mine := u.begin(t)
	if mine != nil {
		go func() {
			err := write(context.WithoutCancel(ctx))
			u.end(t, w, err)
			mine <- err
		}()
	}
	select {
	case err := <-mine:
		return err
	case <-w.over:
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("%w: the write has not ended: %w", core.ErrUnconfirmed, ctx.Err())
	}
}

// begin joins the tries of t. mine is for the outcome of one more; nil where none is needed.
func (u *uncut) begin(t core.Ticket) (w *tries, mine chan error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if w = u.running[t]; w == nil {
		if u.running == nil {
			u.running = map[core.Ticket]*tries{}
		}
		w = &tries{over: make(chan struct{})}
		u.running[t] = w
	}
	if w.answered || w.running == maxUncut {
		return w, nil
	}
	w.running++
	return w, make(chan error, 1)
}

func (u *uncut) end(t core.Ticket, w *tries, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if w.running--; w.running == 0 {
		delete(u.running, t)
	}
	answered := err == nil || errors.Is(err, core.ErrStale) // else another try may do better
	if answered && !w.answered {
		w.answered, w.err = true, err
		close(w.over)
	}
}
