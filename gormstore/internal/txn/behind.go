package txn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/store"
)

// A claim waits for two things: for a connection, and for an answer. Each has its limit. A database that is slow, or a table
// that is locked, gets no better by new connections. So neither a connection that is being opened nor a statement that was
// sent is cut off when its claim gives up: it goes on behind the claim, in its place of the line, and the connection stays.

const (
	openPatience = 4 * time.Second // a claim with a place waits so long for a connection, and for its first answer over it
	behindFor    = DefaultStall    // what goes on behind a claim loses its connection then (F-3)
	watchFor     = time.Minute     // behind a claim that has given up, claims are watched for so long
)

// lateClaims says for how long claims are watched, because one has given up.
type lateClaims struct{ watchUntil atomic.Int64 }

// MayClaimInline reports that a claim may run in the goroutine of its request: a connection waits for it, and lately none
// has given up. An answer that comes too late costs the connection then.
func (d *Database) MayClaimInline() bool {
	return d.slots == nil || d.noLateClaims() && d.Pool.Stats().Idle > 0
}

func (d *Database) noLateClaims() bool { return time.Now().UnixNano() > d.lateClaims.watchUntil.Load() }

// NoteEnd is called behind a claim that has run in the goroutine of its request, before it gives up its place: the next one
// is watched if this one was too late. The connection has the deadline, too, and may notice it before ctx does.
func (d *Database) NoteEnd(ctx context.Context, err error) {
	if end, ok := ctx.Deadline(); err != nil && ok && !time.Now().Before(end) {
		d.noteLateClaim()
	}
}

func (d *Database) noteLateClaim() {
	d.lateClaims.watchUntil.Store(time.Now().Add(watchFor).UnixNano())
}

// errand is the context of what goes on behind a claim.
type errand struct {
	context.Context
	patience time.Duration      // for an answer
	waits    chan time.Duration // how long the claim waits from now on

	mu    sync.Mutex
	sent  bool
	left  bool // the claim has given up
	ended bool
}

var errNoConnection = errors.New("no connection in time")

// errGivenUp: the claim is given back by now. A statement behind that would take the free record that keeps it out.
var errGivenUp = errors.New("the claim has given up")

// Sends is called in front of each statement of a claim. It is not sent if the claim has given up. A statement that its
// connection may have to prepare takes two answers.
func Sends(ctx context.Context, own *sql.Conn, name Statement) error {
	t, ok := ctx.(*errand)
	if !ok {
		return nil
	}
	limit := t.patience
	if isFirst(own, name) {
		limit = openPatience
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left {
		return errGivenUp
	}
	t.sent = true
	select {
	case t.waits <- limit:
	default: // the claim has enough to read
	}
	return nil
}

// sentKey is that of the statements that were sent over a connection.
const sentKey = "idem: sent"

// hasGivenUp reports that nobody waits for the claim of ctx any more.
func hasGivenUp(ctx context.Context) bool {
	t, ok := ctx.(*errand)
	if !ok {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left
}

// isFirst reports that a statement of a claim is sent over a connection for the first time.
func isFirst(own *sql.Conn, name Statement) (first bool) {
	_ = own.Raw(func(connection any) error {
		std, ok := Pgx(connection)
		if !ok {
			return nil
		}
		data := std.Conn().PgConn().CustomData()
		sent, _ := data[sentKey].(map[Statement]bool)
		if sent == nil {
			sent = map[Statement]bool{}
			data[sentKey] = sent
		}
		first = !sent[name]
		sent[name] = true
		return nil
	})
	return first
}

// outcome is what fn of Behind has returned.
type outcome[T any] struct {
	value    T
	err      error
	panicked any
}

// Behind runs fn, which claims. Where the claim gives up, fn goes on for a while, and what it returns then goes to late. The
// claim waits for openPatience for a connection, and then for patience for an answer, also behind the deadline of ctx. If
// ctx is cancelled, all of it ends. The error is store.ErrCrowded where nothing was sent.
func Behind[T any](
	ctx context.Context, d *Database, patience time.Duration, fn func(context.Context) (T, error), late func(T),
) (T, error) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx)) // with a deadline, a cancellation would not be seen: see Ask
	enough := time.AfterFunc(behindFor, cancel)
	t := &errand{Context: work, patience: patience, waits: make(chan time.Duration, 1)}
	ended := make(chan outcome[T], 1)
	go func() {
		defer cancel()
		defer enough.Stop()
		growStack()
		o := recovering(t, fn)
		t.mu.Lock()
		left := t.left
		t.ended = true
		ended <- o
		t.mu.Unlock()
		if left && o.err == nil && o.panicked == nil {
			late(o.value)
		}
	}()
	cancelled := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			close(cancelled)
		}
	})()
	timer := time.NewTimer(openPatience)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case o := <-ended:
			return o.get()
		case limit := <-t.waits:
			timer.Reset(limit)
		case <-timer.C:
			waiting = false
		case <-cancelled:
			cancel()
			waiting = false
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return (<-ended).get()
	}
	t.left = true
	d.noteLateClaim()
	var none T
	why := context.DeadlineExceeded
	if err := ctx.Err(); err != nil {
		why = err
	}
	if !t.sent {
		if s := d.Pool.Stats(); s.OpenConnections >= s.MaxOpenConnections {
			cancel() // it waits in the pool's line, as a rule, and no connection is being opened for it
		}
		return none, &store.CrowdedError{Why: fmt.Errorf("%w: %w", errNoConnection, why)}
	}
	return none, fmt.Errorf("no answer in time: %w", why)
}

func recovering[T any](ctx context.Context, fn func(context.Context) (T, error)) (o outcome[T]) {
	done := false
	defer func() {
		if !done {
			o.panicked = recover()
		}
	}()
	o.value, o.err = fn(ctx)
	done = true
	return o
}

func (o outcome[T]) get() (T, error) {
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.value, o.err
}
