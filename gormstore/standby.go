package gormstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// Notice tells the store of a notice that the server has sent over the connection with the given backend process. It
// is for servers with a synchronous standby. If somebody cancels a COMMIT that waits for the standby
// (pg_cancel_backend), PostgreSQL says that it has committed, with a warning: here, perhaps not there. A store that is
// told takes the COMMIT as unconfirmed until the standby has it. With pgx:
//
//	config.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) { store.Notice(c.PID(), n.Code) }
//
// sqlstate is the notice's code. The method returns at once, and a nil store takes no notice. Behind a pooler like
// PgBouncer the driver does not know the server's own process, and warnings are not recognised: cancel no COMMIT there.
func (s *Store) Notice(pid uint32, sqlstate string) {
	const success = "00000" // of what is no warning
	if s != nil && sqlstate != success {
		s.notices.warn(pid)
	}
}

var errWarned = errors.New("idem: gormstore: the server has answered COMMIT with a warning")

// notices are the backends that a COMMIT is under way on.
type notices struct{ warned sync.Map } // pid -> *atomic.Bool

// expect begins to listen for warnings of a backend. The function that it returns ends that, and reports whether there
// was one.
func (n *notices) expect(pid uint32) (warned func() bool) {
	if pid == 0 {
		return func() bool { return false }
	}
	var mark atomic.Bool
	n.warned.Store(pid, &mark)
	return func() bool {
		n.warned.CompareAndDelete(pid, &mark)
		return mark.Load()
	}
}

func (n *notices) warn(pid uint32) {
	if mark, ok := n.warned.Load(pid); ok {
		mark.(*atomic.Bool).Store(true)
	}
}

// ErrAnotherServer is the error of [Confirm] where the server is not the one that was read from.
var ErrAnotherServer = errors.New("idem: gormstore: the server has been started again, or another one has taken over, " +
	"since this was read: read it again")

// Confirm returns when everything that could be seen on db's server is where the server keeps what it confirms: on its
// synchronous standby, if it has one. What can be seen may not be there yet, because its COMMIT was cut off from waiting;
// whoever acts on it elsewhere would act on what a failover loses (F-2). started is pg_postmaster_start_time() of the
// server that was read from. On SQLite it does nothing.
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
	// A write that changes nothing and asks for no right: COMMIT waits for it, and for everything before it.
	_, err = own.ExecContext(ctx, "SELECT pg_logical_emit_message(true, 'idem', '')")
	if warned() && err == nil {
		err = fmt.Errorf("idem: gormstore: %w", errWarned)
	}
	return err
}

// A server that crashes or restarts shows the commits that were waiting for its synchronous standby before the standby has
// them. A repeat that is answered from one of those is told of a payment that a failover loses (F-2). So the first answer
// from each backend waits for a write: when that is confirmed, everything is that was visible before it. What becomes
// visible later, while that backend lives, its owner has waited for.

// confirmed are the backends of a server whose answers need no further write.
type confirmed struct {
	mu       sync.Mutex
	started  time.Time
	backends map[uint32]bool
}

// maxConfirmed bounds what is remembered of backends that are gone: then all are asked once more.
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

// confirm makes sure that a record that was read and is to be answered from is on the synchronous standby, if there is
// one. An error says that this is not known: errRace where the record is another one by now, because the standby has
// taken over in between and never had it.
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

// atStandby reports whether the server is waiting for its standby with the transaction of a backend, or with a write of
// a record that others cannot see yet.
func (s *Store) atStandby(pid uint32, id core.ID) func(ctx context.Context) bool {
	return func(ctx context.Context) (waits bool) {
		err := s.queryRow(ctx, s.pool, atStandby, int64(pid), id[:]).Scan(&waits)
		return err == nil && waits
	}
}
