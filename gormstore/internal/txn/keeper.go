package txn

import (
	"bytes"
	"context"
	"database/sql"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// keeper renews the leases of this process over a connection of its own, one of the pool's that it does not give back while
// there are leases. A renewal of its own would queue behind every route of the app, and a lease would be lost although the
// database is well. All renewals that are due go in one message. The connection counts: one place less is left for attempts.
type keeper struct {
	db *Database

	mu      sync.Mutex
	waiting map[store.Ticket]*renewal
	working bool
	idle    *time.Timer

	own *sql.Conn // of the goroutine that works; nil: there is none
}

// renewal is one that is due.
type renewal struct {
	call    Call
	changed int64
	ended   chan error
}

const (
	keepIdle    = time.Minute     // the connection is kept so long without a renewal
	renewWithin = 5 * time.Second // a message that is not answered so long has lost its connection
	// leastPlaces are needed to take one of them away. Smaller pools have no keeper.
	leastPlaces = 2
)

// The messages of a keeper. One row that is locked must not hold up all leases.
const (
	keeperBegin = "BEGIN ISOLATION LEVEL READ COMMITTED"
	keeperLocks = "SET LOCAL lock_timeout = '250ms'"
)

// CloseKeeper gives the connection back with which leases are renewed.
func (d *Database) CloseKeeper() { d.keeper.close() }

// Renew runs statement, which renews the lease of t, and returns how many records it has changed. ok is false if the
// pool has no keeper: it is too small, or has no limit and no line.
func (d *Database) Renew(
	ctx context.Context, t store.Ticket, statement Statement, args ...any,
) (n int64, ok bool, err error) {
	if !d.keeps {
		return 0, false, nil
	}
	text, args, err := d.Statements.text(ctx, d.Pool, statement, args)
	if err != nil {
		return 0, true, err
	}
	r := &renewal{ended: make(chan error, 1)}
	r.call = Call{Name: statement, Text: text, Args: args, Changed: &r.changed}
	k := &d.keeper
	k.add(t, r)
	select {
	case err = <-r.ended:
		return r.changed, true, err
	case <-ctx.Done():
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.waiting[t] == r {
			delete(k.waiting, t)
		}
		return 0, true, ctx.Err()
	}
}

func (k *keeper) add(t store.Ticket, r *renewal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting == nil {
		k.waiting = map[store.Ticket]*renewal{}
	}
	k.waiting[t] = r
	if !k.working {
		k.working = true
		if k.idle != nil {
			k.idle.Stop()
		}
		go k.work()
	}
}

// work renews until nothing is due.
func (k *keeper) work() {
	growStack()
	for {
		err := k.connect()
		due, ok := k.due()
		if !ok {
			return
		}
		if err == nil {
			k.renew(due)
			continue
		}
		for _, r := range due {
			r.ended <- err
		}
	}
}

// due takes what is due. If that is nothing, the work is over.
func (k *keeper) due() (due []*renewal, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.waiting) == 0 {
		k.working = false
		k.idle = time.AfterFunc(keepIdle, k.close)
		return nil, false
	}
	order := slices.SortedFunc(maps.Keys(k.waiting), func(a, b store.Ticket) int { // two services never wait for each other
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	for _, t := range order {
		due = append(due, k.waiting[t])
	}
	clear(k.waiting)
	return due, true
}

// connect takes a connection of the pool. It stays in the pool's line until it has one, whoever gives up meanwhile.
func (k *keeper) connect() (err error) {
	if k.own != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepIdle)
	defer cancel()
	if k.own, err = k.db.Pool.Conn(ctx); err == nil {
		k.db.slots.line.resize(-1)
	}
	return err
}

// renew sends what is due. Behind an error each goes alone, once.
func (k *keeper) renew(due []*renewal) {
	err := k.send(due...)
	for _, r := range due {
		one := err
		if err != nil && len(due) > 1 && k.own != nil {
			one = k.send(r)
		}
		r.ended <- one
	}
}

// send sends renewals as one transaction, in one message.
func (k *keeper) send(due ...*renewal) error {
	ctx, cancel := context.WithTimeout(context.Background(), renewWithin)
	defer cancel()
	if k.own == nil {
		return sql.ErrConnDone
	}
	calls := []Call{{Text: keeperBegin}, {Text: keeperLocks}}
	for _, r := range due {
		calls = append(calls, r.call)
	}
	err := Ask(ctx, k.own, append(calls, Call{Text: "COMMIT"})...)
	switch {
	case err == nil:
	case isBroken(err), takesNoWrites(err), ctx.Err() != nil:
		k.drop(Discard)
	default:
		if _, undone := k.own.ExecContext(ctx, "ROLLBACK"); undone != nil {
			k.drop(Discard)
		}
	}
	return err
}

// drop gives the connection up.
func (k *keeper) drop(give func(*sql.Conn)) {
	give(k.own)
	k.own = nil
	k.db.slots.line.resize(1)
}

// close gives the connection back, unless leases are being renewed.
func (k *keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.working && k.own != nil {
		k.drop(func(own *sql.Conn) { _ = own.Close() })
	}
}
