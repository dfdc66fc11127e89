package txn

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/auth19/idem/core/store"
)

// Watcher watches a write until ended is called, as [Stalls.Watch] does. It calls leave if the write's connection passes
// nothing and is left behind; left reports whether it did.
type Watcher func(leave func()) (ended func() (left bool))

// write is a write that is never cancelled.
type write struct {
	Watch Watcher
	// Send sends it, over one connection.
	Send func(ctx context.Context) error
	// AfterSend is called behind Send, and its error is that of the write. left: the connection was left behind, and OnStall
	// called.
	AfterSend func(left bool, err error) error
	// OnStall is called when the connection is left behind.
	OnStall func()
}

// Run sends the write, and waits for its end as long as ctx allows. A write that takes longer goes on. When over is closed,
// the wait ends, too.
//
// Errors: that of AfterSend; ErrStalled; store.ErrUnconfirmed where ctx has ended, or over was closed.
func (w write) Run(ctx context.Context, over <-chan struct{}) error {
	outcome, stalled := make(chan error, 1), make(chan struct{})
	go func() {
		growStack()
		ended := w.Watch(func() {
			w.OnStall()
			close(stalled)
		})
		err := w.Send(context.WithoutCancel(ctx))
		outcome <- w.AfterSend(ended(), err)
	}()
	select {
	case err := <-outcome:
		return err
	case <-stalled:
		return errStalled
	case <-over:
		return store.ErrUnconfirmed
	case <-ctx.Done():
		return unconfirmed(ctx)
	}
}

func unconfirmed(ctx context.Context) error {
	return fmt.Errorf("%w: the write has not ended: %w", store.ErrUnconfirmed, ctx.Err())
}

// Repeated runs writes that may be sent again as they are: the writes of answers. On SQLite such a write waits for the one
// writer, which another transaction may hold until its deadline: the answer gets recorded.
type Repeated struct {
	mu      sync.Mutex
	running map[store.Ticket]*tries
}

// tries are the tries of one write. A second try uses another connection, in case the connection of the first is dead. A
// third one would only wait for the row as well. A try whose connection passes nothing does not count.
type tries struct {
	running  int
	answered bool
	over     chan struct{} // closed when the store has answered one of them
	err      error         // the store's answer
}

const maxTries = 2

// Run runs the write of t, and waits for its end as long as ctx allows. Where the connection of a try is left behind,
// another try follows.
func (r *Repeated) Run(ctx context.Context, t store.Ticket, watch Watcher, send func(context.Context) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		w, mine := r.startTry(t)
		if !mine {
			select {
			case <-w.over:
				return w.err
			case <-ctx.Done():
				return unconfirmed(ctx)
			}
		}
		try := write{Watch: watch, Send: send,
			AfterSend: func(left bool, err error) error {
				r.finishTry(t, w, left, err)
				return err
			},
			OnStall: func() { r.freeTry(t, w) },
		}
		err := try.Run(ctx, w.over)
		select {
		case <-w.over: // this try or another one
			return w.err
		default:
		}
		if !errors.Is(err, errStalled) {
			return err
		}
	}
}

// startTry returns the tries of t. mine: the caller runs one more.
func (r *Repeated) startTry(t store.Ticket) (w *tries, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w = r.running[t]; w == nil {
		if r.running == nil {
			r.running = map[store.Ticket]*tries{}
		}
		w = &tries{over: make(chan struct{})}
		r.running[t] = w
	}
	if w.answered || w.running == maxTries {
		return w, false
	}
	w.running++
	return w, true
}

// freeTry makes room for another try.
func (r *Repeated) freeTry(t store.Ticket, w *tries) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.less(t, w)
}

// less counts one try less; r.mu is held.
func (r *Repeated) less(t store.Ticket, w *tries) {
	if w.running--; w.running == 0 && r.running[t] == w {
		delete(r.running, t)
	}
}

func (r *Repeated) finishTry(t store.Ticket, w *tries, left bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !left {
		r.less(t, w)
	}
	answered := err == nil || errors.Is(err, store.ErrStale) // after another error, another try may succeed
	if answered && !w.answered {
		w.answered, w.err = true, err
		close(w.over)
	}
}

// growStack makes room on the stack of a new goroutine, once. A statement through database/sql and a driver needs some 8 KB
// of it: a goroutine would grow its stack three times, and copy it each time, which was a sixth of what recording costs in
// the process.
//
//go:noinline
func growStack() {
	var room [8 << 10]byte
	runtime.KeepAlive(&room)
}
