package core

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// recovered runs fn, and turns a panic into an error. The server recovers the panic of a request; nothing else recovers
// one in Run.
func recovered(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}

// errHangs: an app's function has not returned within its deadline.
var errHangs = errors.New("the app's function is past its deadline and has not returned; its operation is left alone " +
	"until it does")

// isolation runs what an app does for single operations away from the loop that asks for it. The zero value is ready.
type isolation struct {
	mu   sync.Mutex
	busy map[ID]bool
}

// runAlone runs fn for an operation, and waits for its end for limit. If fn hangs, only this operation is blocked: the loop
// continues with the others, and leaves this one alone until fn has returned. A panic of fn becomes an error.
func (a *isolation) runAlone(id ID, limit time.Duration, fn func() error) error {
	if !a.occupy(id) {
		return nil
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		defer func() {
			a.free(id)
			ended <- err
		}()
		err = recovered(fn)
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return errHangs
	}
}

// occupy marks an operation as occupied. It returns false if it is occupied already.
func (a *isolation) occupy(id ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[id] {
		return false
	}
	if a.busy == nil {
		a.busy = map[ID]bool{}
	}
	a.busy[id] = true
	return true
}

func (a *isolation) free(id ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.busy, id)
}
