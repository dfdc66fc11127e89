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
// failover loses (X-4, F-2). On SQLite such a write stays in the line for the one writer, behind a transaction that may
// hold it until its deadline: an answer that has been made gets recorded.
type uncut struct {
	mu      sync.Mutex
	running map[core.Ticket]*tries
}

// tries are the tries of one write. A second one goes over another connection, in case that of the first is dead; a third
// would only wait for the row as well. One whose connection passes nothing does not count.
type tries struct {
	running  int
	answered bool
	over     chan struct{} // closed when one of them was answered by the store
	err      error         // that answer
}

const maxUncut = 2

// run runs the write of t and waits for its end as long as ctx allows; the write goes on if it takes longer. Where watch
// leaves its connection behind, another try follows.
func (u *uncut) run(ctx context.Context, t core.Ticket, watch watcher, write func(context.Context) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		w, mine := u.begin(t)
		stalled := make(chan struct{})
		if mine != nil {
			go func() {
				ended := watch(func() {
					u.leave(t, w)
					close(stalled)
				})
				err := write(context.WithoutCancel(ctx))
				u.end(t, w, ended(), err)
				mine <- err
			}()
		}
		select {
		case err := <-mine:
			return err
		case <-w.over:
			return w.err
		case <-stalled:
		case <-ctx.Done():
			return fmt.Errorf("%w: the write has not ended: %w", core.ErrUnconfirmed, ctx.Err())
		}
	}
}

// watcher looks after one try, as stalls.watch does.
type watcher func(spare func()) (ended func() (left bool))

// unwatched lets a try take its time.
func unwatched(func()) (ended func() bool) { return func() bool { return false } }

// stalling is the watcher of the writes of t.
func (s *Store) stalling(t core.Ticket) watcher {
	return func(spare func()) func() bool { return s.stalls.watch(s.atStandby(0, t.ID), spare) }
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

// leave makes room for another try.
func (u *uncut) leave(t core.Ticket, w *tries) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.less(t, w)
}

// less counts one try less; u.mu is held.
func (u *uncut) less(t core.Ticket, w *tries) {
	if w.running--; w.running == 0 && u.running[t] == w {
		delete(u.running, t)
	}
}

func (u *uncut) end(t core.Ticket, w *tries, left bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !left {
		u.less(t, w)
	}
	answered := err == nil || errors.Is(err, core.ErrStale) // else another try may do better
	if answered && !w.answered {
		w.answered, w.err = true, err
		close(w.over)
	}
}
