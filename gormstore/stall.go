package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/auth19/idem/core"
)

// A connection can be open and pass nothing: a firewall has forgotten it, or a switch is gone. Nobody notices that while a
// statement runs on it that is never cancelled: COMMIT, and the write of an answer. The driver would close the
// connection with a cancel request over another connection, and a cancel request must never reach a COMMIT that waits for
// its standby. So the store leaves such a connection to the operating system, raises the pool's limit by one, and reads over
// another connection what became of the statement (F-3).

// DefaultStall is how long a statement that is never cancelled may hold a connection of the pool over which nothing passes,
// unless [StallAfter] says otherwise.
const DefaultStall = 15 * time.Second

var errStalled = errors.New("idem: gormstore: the connection passes nothing")

// stalls raises the pool's limit by one for each connection that passes nothing, at most to twice the limit.
type stalls struct {
	pool  *sql.DB
	after time.Duration
	most  int // the pool's limit; 0: it has none, and nothing needs to be watched

	mu   sync.Mutex
	left int // connections that are left behind
}

func newStalls(pool *sql.DB, after time.Duration) *stalls {
	if after == 0 {
		after = DefaultStall
	}
	return &stalls{pool: pool, after: after, most: pool.Stats().MaxOpenConnections}
}

// sameLimit is an error if the pool has another limit than New saw: the slots and the stalls are made for that one. A limit
// that stalls has raised is no error.
func (s *stalls) sameLimit() error {
	limit := s.pool.Stats().MaxOpenConnections
	if (limit == 0) == (s.most == 0) && limit >= s.most && limit <= 2*s.most {
		return nil
	}
	return fmt.Errorf("SetMaxOpenConns was called after gormstore.New: the pool's limit was %d then, and is %d now (0: none); "+
		"set it before New", s.most, limit)
}

// stall is a statement that is never cancelled.
type stall struct {
	*stalls
	waits func(ctx context.Context) bool // the server has the statement, and waits for its standby
	spare func()                         // called when the pool's limit has been raised

	timer *time.Timer
	ended bool
	left  bool
}

// watch watches a statement until end is called. end reports whether spare was called.
func (s *stalls) watch(waits func(ctx context.Context) bool, spare func()) (end func() (left bool)) {
	if s == nil || s.most == 0 {
		return func() bool { return false }
	}
	w := &stall{stalls: s, waits: waits, spare: spare}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.timer = time.AfterFunc(s.after, w.look)
	return w.end
}

// look leaves the connection behind, unless another connection sees that the server waits for its standby with the
// statement: then it looks again later. Where no other connection can be had, nobody has seen that.
func (w *stall) look() {
	ctx, cancel := context.WithTimeout(context.Background(), core.DefaultClaimTimeout)
	defer cancel()
	waits := w.waits(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case waits || w.stalls.left == w.most:
		w.timer.Reset(w.after)
	default:
		w.left = true
		w.add(1)
		w.spare()
	}
}

func (w *stall) end() (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
	if w.left {
		w.add(-1)
	}
	return w.left
}

// limits is held while a pool's limit changes: stores may share a pool.
var limits sync.Mutex

// add changes the number of connections that are left behind, and the pool's limit with it; s.mu is held.
func (s *stalls) add(n int) {
	s.left += n
	limits.Lock()
	defer limits.Unlock()
	if limit := s.pool.Stats().MaxOpenConnections; limit > 0 && limit+n > 0 {
		s.pool.SetMaxOpenConns(limit + n)
	}
}
