package gormstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
)

// Notice tells the store of a notice that the server has sent over the connection with the given backend process. It is for
// servers with a synchronous standby. If an operator cancels a COMMIT that waits for the standby (pg_cancel_backend),
// PostgreSQL answers that it has committed, with a warning: the standby may not have it. A store that gets the warning takes
// the COMMIT as unconfirmed until the standby has it. With pgx:
//
//	config.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) { store.Notice(c.PID(), n.Code) }
//
// sqlstate is the notice's code. The method returns at once, and does nothing on a nil store. Behind a pooler like
// PgBouncer the driver does not know the server's own process, and warnings are not recognised: cancel no COMMIT there.
func (s *Store) Notice(pid uint32, sqlstate string) {
	const success = "00000" // the code of a notice that is no warning
	if s != nil && sqlstate != success {
		s.notices.warn(pid)
	}
}

var errWarned = errors.New("idem: gormstore: the server has answered COMMIT with a warning")

// notices are the backends that have sent a warning. A COMMIT looks whether its own is among them.
type notices struct{ warned sync.Map } // pid

// expect listens for warnings of a backend until warned is called. warned reports whether there was one.
func (n *notices) expect(pid uint32) (warned func() bool) {
	n.warned.Delete(pid) // of an earlier statement
	return func() bool {
		_, warned := n.warned.LoadAndDelete(pid)
		return warned
	}
}

func (n *notices) warn(pid uint32) { n.warned.Store(pid, nil) }

// ErrAnotherServer is the error of [Confirm] where the server is not the one that was read from.
var ErrAnotherServer = errors.New("idem: gormstore: the server has been started again, or another one has taken over, " +
	"since this was read: read it again")

// Confirm returns when the synchronous standby of db's server, if there is one, has everything that can be seen on the
// server now. A row can be seen before the standby has it, when its COMMIT was cancelled or the server restarted while
// COMMIT waited for the standby. Call Confirm before you act on such a row elsewhere: a failover could lose the row (F-2).
// started is pg_postmaster_start_time() of the server that was read from. On SQLite Confirm does nothing.
//
// Errors: [ErrAnotherServer]; the end of ctx; the database's. Nothing is known then.
func Confirm(ctx context.Context, db *gorm.DB, started time.Time) error {
	s, err := storeOf(db)
	if err != nil || s.dialect == sqlite {
		return err
	}
	own, err := s.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }()
	var pid uint32
	var now time.Time
	const server = "SELECT pg_backend_pid(), pg_postmaster_start_time()"
	if err := own.QueryRowContext(ctx, server).Scan(&pid, &now); err != nil {
		return err
	}
	if !now.Equal(started) {
		return ErrAnotherServer
	}
	warned := s.notices.expect(pid)
	_, err = own.ExecContext(ctx, confirmingWrite)
	if warned() && err == nil {
		err = fmt.Errorf("idem: gormstore: %w", errWarned)
	}
	return err
}

// confirmingWrite is a write that changes nothing and asks for no right: COMMIT waits for it, and for everything before it.
const confirmingWrite = "SELECT pg_logical_emit_message(true, 'idem', '')"

// While a COMMIT waits for the synchronous standby, its rows cannot be seen. But after a crash or a restart the server shows
// them at once, before the standby has them. A repeat that is answered from such a row is told of a payment that a failover
// loses (F-2). So the first answer that is read over each backend waits for a write: when the standby has confirmed the
// write, it has everything that was visible before. For rows that become visible later, while the backend lives, their own
// COMMIT has waited.

// confirmed are the backends of a server over which such a write has been confirmed.
type confirmed struct {
	mu       sync.Mutex
	started  time.Time
	backends map[uint32]bool
}

// maxConfirmed bounds the memory for backends that are gone. Past it all are forgotten, and confirm once more.
const maxConfirmed = 1024

func (c *confirmed) has(started time.Time, pid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started.Equal(started) && c.backends[pid]
}

func (c *confirmed) add(started time.Time, pid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started.Equal(started) || len(c.backends) == maxConfirmed {
		c.started, c.backends = started, make(map[uint32]bool)
	}
	c.backends[pid] = true
}

// hasOutcome reports whether a repeat is told from a record how its command ended. A tombstone tells it too, and an erasure
// may have made one right after COMMIT.
func hasOutcome(rec store.Record) bool {
	return rec.Stored == store.Completed || rec.Stored == store.Expired
}

// confirm makes sure that the synchronous standby, if there is one, has a record with an outcome, which was read to answer
// from it. An error means that this is not known. errRace: the record has changed, because the standby has taken over and
// never had it.
func (s *Store) confirm(ctx context.Context, read *recordScan) error {
	if read.started.IsZero() || s.confirmed.has(read.started.Time, read.pid) {
		return nil
	}
	n, err := s.exec(ctx, s.pool, touchRead, read.id, read.owner, read.fence.Int64)
	switch {
	case err != nil:
		return fmt.Errorf("idem: gormstore: the server may have lost its standby since this was committed: %w", err)
	case n == 0:
		return errRace
	}
	s.confirmed.add(read.started.Time, read.pid)
	return nil
}

// uncut runs the writes of answers, and never cancels them. A server that is told to cancel while it waits for its standby
// commits all the same, and a repeat would be answered with a record that a failover loses (X-4, F-2). On SQLite such a
// write waits for the one writer, which another transaction may hold until its deadline: the answer gets recorded.
type uncut struct {
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

const maxUncut = 2

// run runs the write of t, and waits for its end as long as ctx allows. A write that takes longer goes on. Where watch
// leaves the connection of a try behind, another try follows.
func (u *uncut) run(ctx context.Context, t store.Ticket, watch watcher, write func(context.Context) error) error {
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
				growStack()
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
			return fmt.Errorf("%w: the write has not ended: %w", store.ErrUnconfirmed, ctx.Err())
		}
	}
}

// watcher watches one try, as stalls.watch does.
type watcher func(spare func()) (ended func() (left bool))

// unwatched watches nothing.
func unwatched(func()) (ended func() bool) { return func() bool { return false } }

// stalling is the watcher of the writes of t.
func (s *Store) stalling(t store.Ticket) watcher {
	return func(spare func()) func() bool { return s.stalls.watch(s.atStandby(0, t.ID), spare) }
}

// begin returns the tries of t. mine gets the outcome of one more try, which the caller runs; nil where none is needed.
func (u *uncut) begin(t store.Ticket) (w *tries, mine chan error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if w = u.running[t]; w == nil {
		if u.running == nil {
			u.running = map[store.Ticket]*tries{}
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
func (u *uncut) leave(t store.Ticket, w *tries) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.less(t, w)
}

// less counts one try less; u.mu is held.
func (u *uncut) less(t store.Ticket, w *tries) {
	if w.running--; w.running == 0 && u.running[t] == w {
		delete(u.running, t)
	}
}

func (u *uncut) end(t store.Ticket, w *tries, left bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !left {
		u.less(t, w)
	}
	answered := err == nil || errors.Is(err, store.ErrStale) // after another error, another try may succeed
	if answered && !w.answered {
		w.answered, w.err = true, err
		close(w.over)
	}
}

// atStandby returns a function that reports whether the server waits for its standby: with the transaction of a backend, or
// with a write of a record that others cannot see yet.
func (s *Store) atStandby(pid uint32, id store.ID) func(ctx context.Context) bool {
	return func(ctx context.Context) (waits bool) {
		err := s.queryRow(ctx, s.pool, atStandby, int64(pid), id[:]).Scan(&waits)
		return err == nil && waits
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
