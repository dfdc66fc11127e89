package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/auth19/idem/core"
)

// A connection that is open and passes nothing, because a firewall has forgotten it or a switch is gone, is noticed by
// nobody as long as a statement runs on it that is never cancelled: COMMIT, and the write of an answer. To close it
// by the driver means a cancel request, which goes over another connection and must never reach a COMMIT that waits for
// its standby. So such a connection is left to the operating system, and the pool gets another place for it; what
// became of the statement is read back over another (F-3).

// DefaultStall is how long a statement that is never cancelled may hold a place of the pool, unless [StallAfter] says
// otherwise.
const DefaultStall = 15 * time.Second

var errStalled = errors.New("idem: gormstore: the connection passes nothing")

// stalls gives the pool another place for each connection that passes nothing, as many as the pool has at most.
type stalls struct {
	pool  *sql.DB
	after time.Duration
	most  int // 0: the pool has no limit, and so no places to lose

	mu   sync.Mutex
	left int // connections that are left behind
}

func newStalls(pool *sql.DB, after time.Duration) *stalls {
	if after == 0 {
		after = DefaultStall
	}
	return &stalls{pool: pool, after: after, most: pool.Stats().MaxOpenConnections}
}

// stall is a statement that is never cancelled, and its place.
type stall struct {
	*stalls
	waits func(ctx context.Context) bool // the server has it, and waits for its standby
	spare func()                         // called when the pool has got another place

	timer *time.Timer
	ended bool
	left  bool
}

// watch looks after a statement until end is called, which reports whether spare was.
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

// look leaves the connection behind, unless another one sees that the server is at the statement: then it looks again
// later. Where no other is to be had, nobody has seen it.
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

// add changes what is left behind, and the pool's limit with it; s.mu is held.
func (s *stalls) add(n int) {
	s.left += n
	limits.Lock()
	defer limits.Unlock()
	if limit := s.pool.Stats().MaxOpenConnections; limit > 0 && limit+n > 0 {
		s.pool.SetMaxOpenConns(limit + n)
	}
}
