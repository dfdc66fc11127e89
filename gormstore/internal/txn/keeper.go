package txn

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/store"
)

// keeper renews the leases of this process over a connection of its own, one of the pool's that it never gives back. A
// renewal of its own would queue behind every route of the app, and a lease would be lost although the database is well.
// So the connection is there before a lease begins (see Keep), and is replaced as soon as it breaks. All renewals that are
// due go in one message. The connection counts: one place less is left for attempts.
type keeper struct {
	db   *Database
	held atomic.Bool // there is a connection

	mu      sync.Mutex
	own     *sql.Conn     // nil: there is none
	opening func()        // ends the tries to open one; nil: there are none
	failed  error         // why the last one could not be opened
	tried   chan struct{} // closed when the next try has ended; nil: nobody waits for it
	stores  int           // that are not closed

	waiting map[store.Ticket]*renewal
	working bool // somebody uses own
	alive   *time.Timer
}

// renewal is one that is due.
type renewal struct {
	call    Call
	changed int64
	left    bool // nobody waits for it any more
	again   bool // its connection broke, and it is sent once more
	ended   chan error
}

const (
	keepAlive   = 10 * time.Second // a connection is tried if nothing was renewed for so long
	openWithin  = time.Minute      // a new one is tried again for so long, and for the next who needs it
	openTry     = 10 * time.Second // at most so long at once
	renewWithin = 5 * time.Second  // a message that is not answered so long has lost its connection
	// leastPlaces are needed to take one of them away. Smaller pools have no keeper.
	leastPlaces = 2
)

// keeperOf returns the keeper of d, which is that of the database before it on the same pool.
func keeperOf(d, before *Database) *keeper {
	if d.slots.line.places < leastPlaces {
		return nil
	}
	k := &keeper{db: d}
	if before != nil && before.Pool == d.Pool && before.keeper != nil {
		k = before.keeper
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stores++
	return k
}

// CloseKeeper gives the connection back with which leases are renewed, as soon as what is due was renewed, unless another
// store on the pool needs it. Later leases are renewed over the pool.
func (d *Database) CloseKeeper() {
	if k := d.keeper; k != nil && d.closed.CompareAndSwap(false, true) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.stores--
		if k.stores <= 0 && k.opening != nil {
			k.opening()
		}
		k.wake()
	}
}

// Keep waits until there is a connection for renewals, behind a claim whose attempt will have a lease: without one it
// might be lost. It waits in the place of the claim's line.
func (d *Database) Keep(ctx context.Context) error {
	k := d.keeper
	if k == nil || k.held.Load() {
		return nil
	}
	ctx, leave := inLine(ctx)
	defer leave()
	k.mu.Lock()
	if k.own != nil || k.stores <= 0 {
		k.mu.Unlock()
		return nil
	}
	if k.tried == nil {
		k.tried = make(chan struct{})
	}
	tried := k.tried
	k.wake()
	k.mu.Unlock()
	select {
	case <-tried:
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.own != nil, k.stores <= 0:
		return nil
	case k.failed != nil:
		return k.failed
	}
	return &store.CrowdedError{Why: fmt.Errorf("no connection for renewals: %w", ctx.Err())}
}

// Renew runs statement, which renews the lease of t, and returns how many records it has changed. ok is false if the
// pool has no keeper: it is too small, or has no limit and no line.
func (d *Database) Renew(
	ctx context.Context, t store.Ticket, statement Statement, args ...any,
) (n int64, ok bool, err error) {
	k := d.keeper
	if k == nil || !k.held.Load() && k.isClosed() {
		return 0, false, nil
	}
	text, args, err := d.Statements.text(ctx, d.Pool, statement, args)
	if err = cmp.Or(ctx.Err(), err); err != nil { // whose time is over sends nothing
		return 0, true, err
	}
	r := &renewal{ended: make(chan error, 1)}
	r.call = Call{Name: statement, Text: text, Args: args, Changed: &r.changed}
	k.add(t, r)
	select {
	case err = <-r.ended:
		return r.changed, true, err
	case <-ctx.Done():
	}
	k.mu.Lock()
	r.left = true
	if k.waiting[t] == r {
		delete(k.waiting, t)
	}
	failed := k.failed
	k.mu.Unlock()
	return 0, true, errors.Join(ctx.Err(), failed)
}

func (k *keeper) isClosed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stores <= 0
}

func (k *keeper) add(t store.Ticket, r *renewal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting == nil {
		k.waiting = map[store.Ticket]*renewal{}
	}
	k.waiting[t] = r
	k.wake()
}

// wake begins what there is to do; k.mu is held.
func (k *keeper) wake() {
	switch {
	case k.opening != nil, k.working:
	case k.own == nil && k.stores <= 0:
	case k.own == nil:
		ctx, cancel := context.WithTimeout(context.Background(), openWithin)
		k.opening = cancel
		go k.open(ctx)
	case k.stores <= 0 && len(k.waiting) == 0:
		k.drop(func(own *sql.Conn) { _ = own.Close() })
	case len(k.waiting) > 0:
		k.working = true
		k.alive.Stop()
		go k.work()
	}
}

// open opens a connection. ctx is that of k.opening.
func (k *keeper) open(ctx context.Context) {
	growStack()
	again(ctx, long, func(int) bool { return k.openOnce(ctx) })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opening()
	k.opening = nil
	if k.own != nil {
		k.wake()
	}
}

func (k *keeper) openOnce(ctx context.Context) (done bool) {
	ctx, cancel := context.WithTimeout(ctx, openTry)
	defer cancel()
	own, err := k.db.spareConn(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.own, k.failed = own, err; err == nil {
		k.held.Store(true)
		k.db.slots.line.resize(-1)
		k.alive = time.AfterFunc(keepAlive, k.try)
	}
	if k.tried != nil {
		close(k.tried)
		k.tried = nil
	}
	return err == nil || k.stores <= 0 || k.db.isClosed()
}

// spareConn opens a connection of the pool. Where all are in use, the pool is one larger meanwhile: in its line the app's
// own routes would come first, however many they are.
func (d *Database) spareConn(ctx context.Context) (*sql.Conn, error) {
	if s := d.Pool.Stats(); s.Idle == 0 && s.OpenConnections >= s.MaxOpenConnections {
		defer d.Stalls.spare()()
	}
	return d.Pool.Conn(ctx)
}

// isClosed reports that the app has closed its pool.
func (d *Database) isClosed() bool {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := d.Pool.Conn(ended)
	return !errors.Is(err, context.Canceled)
}

// try renews nothing, so that a connection that is broken is replaced before it is needed.
func (k *keeper) try() {
	if k.db.isClosed() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.stores = 0
		k.wake()
		return
	}
	r := &renewal{call: Call{Text: "SELECT 1"}, ended: make(chan error, 1)}
	k.add(store.Ticket{}, r)
}

// work renews until nothing is due.
func (k *keeper) work() {
	growStack()
	for due := k.due(); due != nil; due = k.due() {
		k.renew(due)
	}
}

// due takes what is due. If that is nothing, or the connection is gone, the work is over.
func (k *keeper) due() (due []ticketed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.waiting) == 0 || k.own == nil {
		k.working = false
		if k.own != nil {
			k.alive.Reset(keepAlive)
		}
		k.wake()
		return nil
	}
	for t, r := range k.waiting {
		due = append(due, ticketed{t, r})
	}
	slices.SortFunc(due, func(a, b ticketed) int { // two services never wait for each other
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	clear(k.waiting)
	return due
}

// ticketed is a renewal, and whose.
type ticketed struct {
	store.Ticket
	*renewal
}

// renew sends what is due. Behind an error of one each goes alone, once. If the connection broke, they go over the next one,
// once; one that met a conflict goes again, once.
func (k *keeper) renew(due []ticketed) {
	err := k.send(due...)
	for _, r := range due {
		one := err
		if err != nil && len(due) > 1 && k.own != nil {
			one = k.send(r)
		}
		if one == nil || k.own != nil && !IsConflict(one) || !k.later(r) {
			r.ended <- one
		}
	}
}

// later puts a renewal back, for the next connection.
func (k *keeper) later(r ticketed) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.left || r.again || k.waiting[r.Ticket] != nil {
		return false
	}
	r.again = true
	k.waiting[r.Ticket] = r.renewal
	return true
}

// send sends renewals as one transaction, in one message.
func (k *keeper) send(due ...ticketed) error {
	ctx, cancel := context.WithTimeout(context.Background(), renewWithin)
	defer cancel()
	calls := calls(k.db.Dialect.BeginRenewals)
	for _, r := range due {
		calls = append(calls, r.call)
	}
	err := Ask(ctx, k.own, append(calls, Call{Text: "COMMIT"})...)
	if err == nil {
		return nil
	}
	lost := isConnectionError(err) || takesNoWrites(err) || ctx.Err() != nil
	if !lost {
		_, undone := k.own.ExecContext(ctx, "ROLLBACK")
		lost = undone != nil
	}
	if lost {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.drop(Discard)
	}
	return err
}

// drop gives the connection up; k.mu is held.
func (k *keeper) drop(give func(*sql.Conn)) {
	give(k.own)
	k.own = nil
	k.held.Store(false)
	k.alive.Stop()
	k.db.slots.line.resize(1)
}
