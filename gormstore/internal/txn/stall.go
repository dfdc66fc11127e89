package txn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A connection can be open although no data passes any more: a firewall has dropped it, or a switch has failed. Nothing
// notices this while a statement runs on it that is never cancelled: COMMIT, and the write of an answer. To close
// the connection, the driver would send a cancel request over another connection, and such a request must never reach a
// COMMIT that waits for its standby. So the library leaves the connection to the operating system, raises the pool's limit
// by one, and finds out over another connection whether the statement took effect (F-3).

// DefaultStall is the default of gormstore.StallAfter.
const DefaultStall = 15 * time.Second

// errStalled says that the connection of a write passes nothing, and was left behind.
var errStalled = errors.New("idem: gormstore: the connection passes nothing")

// Stalls raises the pool's limit by one for each stalled connection, at most to twice the limit.
type Stalls struct {
	pool  *sql.DB
	after time.Duration
	most  int // the pool's limit; 0: it has none, and nothing needs to be watched

	mu   sync.Mutex
	left int // connections that are left behind
}

// newStalls watches the writes on a pool. after 0: DefaultStall.
func newStalls(pool *sql.DB, after time.Duration) *Stalls {
	if after == 0 {
		after = DefaultStall
	}
	return &Stalls{pool: pool, after: after, most: pool.Stats().MaxOpenConnections}
}

// SameLimit returns an error if the pool's limit was changed after gormstore.New: the slots and the stalls are made for
// the old limit. A limit that stalls has raised is not an error. Where nothing is watched, s is nil.
func (s *Stalls) SameLimit() error {
	if s == nil {
		return nil
	}
	limit := s.pool.Stats().MaxOpenConnections
	if (limit == 0) == (s.most == 0) && limit >= s.most && limit <= 2*s.most {
		return nil
	}
	return fmt.Errorf("SetMaxOpenConns was called after gormstore.New: the pool's limit was %d then, and is %d now (0: none); "+
		"set it before New", s.most, limit)
}

// stall is a statement that is never cancelled.
type stall struct {
	*Stalls
	waits func(ctx context.Context) bool // the server has the statement, and waits for its standby
	spare func()                         // called when the pool's limit has been raised

	timer *time.Timer
	ended bool
	left  bool
}

// Watch watches a statement until end is called. end reports whether spare was called.
func (s *Stalls) Watch(waits func(ctx context.Context) bool, spare func()) (end func() (left bool)) {
	if s == nil || s.most == 0 {
		return func() bool { return false }
	}
	w := &stall{Stalls: s, waits: waits, spare: spare}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.timer = time.AfterFunc(s.after, w.look)
	return w.stopWatching
}

// lookFor is how long the look over another connection may take.
const lookFor = time.Second

// look abandons the connection. But if another connection sees that the statement waits for the standby, it looks again
// later. If there is no other connection, it abandons the first one, too.
func (w *stall) look() {
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	waits := w.waits(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case waits || w.Stalls.left == w.most:
		w.timer.Reset(w.after)
	default:
		w.left = true
		w.add(1)
		w.spare()
	}
}

func (w *stall) stopWatching() (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
	if w.left {
		w.add(-1)
	}
	return w.left
}

// limits is held while a pool's limit changes. It is one for the process: stores may share a pool, and database/sql can
// set a limit, but not raise it by one. Without it, two that raise the limit at once would raise it by one together.
var limits sync.Mutex

// add changes the number of connections that are left behind, and the pool's limit with it; s.mu is held.
func (s *Stalls) add(n int) {
	s.left += n
	s.raise(n)
}

func (s *Stalls) raise(n int) {
	limits.Lock()
	defer limits.Unlock()
	if limit := s.pool.Stats().MaxOpenConnections; limit > 0 && limit+n > 0 {
		s.pool.SetMaxOpenConns(limit + n)
	}
}

// spare raises the pool's limit by one until back is called.
func (s *Stalls) spare() (back func()) {
	s.raise(1)
	return func() { s.raise(-1) }
}
