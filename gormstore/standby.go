package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
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
		s.notices.Warn(pid)
	}
}

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
	if err != nil {
		return err
	}
	return s.confirm(ctx, started)
}

// confirm returns when the synchronous standby, if there is one, has everything that can be seen on the server. started is
// when the server was started that was read from; zero: any server will do.
//
// Errors: ErrAnotherServer; the end of ctx; the database's. Nothing is known then.
func (s *Store) confirm(ctx context.Context, started time.Time) error {
	if s.dialect == sqlite {
		return nil
	}
	own, err := s.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }()
	for range 2 { // a warning may have come from an earlier statement over this connection, but only once
		var same bool
		var pid uint32
		err := s.queryRow(ctx, own, confirm, sql.NullTime{Time: started, Valid: !started.IsZero()}).Scan(&same, &pid)
		switch {
		case err != nil:
			return err
		case !same:
			return ErrAnotherServer
		case !s.notices.Warned(pid):
			return nil
		}
	}
	return txn.ErrWarned
}

// server is what a statement tells of the server: the backend, and when the server was started, NULL without a synchronous
// standby.
type server struct {
	pid     uint32
	started instant
	warned  bool // it has answered the statement with a warning
}

// confirmWritten is called behind a statement that has committed by itself. It waits once more for the standby if the server
// has answered with a warning: an operator has cancelled the first wait.
func (s *Store) confirmWritten(ctx context.Context, by server) error {
	if !by.warned && !s.notices.Warned(by.pid) {
		return nil
	}
	return s.confirm(ctx, by.started.Time)
}

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

// confirmRead makes sure that the synchronous standby, if there is one, has a record with an outcome, which was read to
// answer from it. An error means that this is not known. errRace: another server has taken over, which may not have it.
func (s *Store) confirmRead(ctx context.Context, read *recordScan) error {
	if read.started.IsZero() || s.confirmed.has(read.started.Time, read.pid) {
		return nil
	}
	err := s.confirm(ctx, read.started.Time)
	switch {
	case errors.Is(err, ErrAnotherServer):
		return errRace
	case err != nil:
		return fmt.Errorf("idem: gormstore: the server may have lost its standby since this was committed: %w", err)
	}
	s.confirmed.add(read.started.Time, read.pid)
	return nil
}

// stallOf is the watcher of a write that is never cancelled: of the backend pid, or of the record id. On SQLite there is no
// network connection that could stall.
func (s *Store) stallOf(pid uint32, id store.ID) txn.Watcher {
	return func(leave func()) func() bool {
		return s.stalls.Watch(s.atStandby(pid, id), leave)
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
