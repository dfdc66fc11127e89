package txn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
)

// Confirm returns when the synchronous standby, if there is one, has everything that can be seen on the server. started is
// when the server was started that was read from; 0: any server will do.
//
// Errors: ErrAnotherServer; the end of ctx; the database's. Nothing is known then.
func (d *Database) Confirm(ctx context.Context, started int64) error {
	return Retry(ctx, func() error {
		return d.onConn(ctx, "", func(own *sql.Conn) error { return d.confirmOn(ctx, own, started) })
	})
}

// ConfirmOn is Confirm over the connection that was read over, whose transaction it ends. Behind a pooler, the next server
// may be another one nevertheless. started 0: there is no standby to wait for.
func (d *Database) ConfirmOn(ctx context.Context, own *sql.Conn, started int64) error {
	if started == 0 {
		return nil
	}
	if _, err := own.ExecContext(ctx, "ROLLBACK"); err != nil {
		return err
	}
	return d.confirmOn(ctx, own, started)
}

// confirmOn is Confirm over one connection.
func (d *Database) confirmOn(ctx context.Context, own *sql.Conn, started int64) error {
	for range 2 { // a warning may have come from an earlier statement over this connection, but only once
		same := true
		var pid uint32
		err := d.QueryRow(ctx, own, confirm, sql.NullInt64{Int64: started, Valid: started != 0}).Scan(&same, &pid)
		switch {
		case err != nil:
			return err
		case !same:
			return ErrAnotherServer
		case !d.Notices.Warned(pid):
			return nil
		}
	}
	return errWarned
}

// ErrAnotherServer says that the server is not the one that was read from.
var ErrAnotherServer = errors.New("idem: gormstore: the server has been started again, or another one has taken over, " +
	"since this was read: read it again")

// ErrRace says that the record was committed after the claim's snapshot. Only a new claim can see the record.
var ErrRace = errors.New("idem: gormstore: the claim lost to a record that it could not see")

// Server is what a statement tells of the server: the backend, and when the server was started, NULL without a synchronous
// standby.
type Server struct {
	PID     uint32
	Started pgtype.Int8
	warned  bool // it has answered the statement with a warning
}

// ConfirmWritten is called behind a statement that has committed by itself. It waits once more for the standby if the server
// has answered with a warning: an operator has cancelled the first wait.
func (d *Database) ConfirmWritten(ctx context.Context, by Server) error {
	if !by.warned && !d.Notices.Warned(by.PID) {
		return nil
	}
	return d.Confirm(ctx, by.Started.Int64)
}

// While a COMMIT waits for the synchronous standby, its rows cannot be seen. But after a crash or a restart the server shows
// them at once, before the standby has them. A repeat that is answered from such a row is told of a payment that a failover
// loses (F-2). So the first answer that is read over each backend waits for a write: when the standby has confirmed the
// write, it has everything that was visible before. For rows that become visible later, while the backend lives, their own
// COMMIT has waited.

// Confirmed are the backends of a server over which such a write has been confirmed.
type Confirmed struct {
	mu       sync.Mutex
	started  int64
	backends map[uint32]bool
}

// maxConfirmed bounds the memory for backends that are gone. Past it all are forgotten, and confirm once more.
const maxConfirmed = 1024

// Has reports whether such a write has been confirmed over a backend.
func (c *Confirmed) Has(started int64, pid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started == started && c.backends[pid]
}

func (c *Confirmed) add(started int64, pid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started != started || len(c.backends) == maxConfirmed {
		c.started, c.backends = started, make(map[uint32]bool)
	}
	c.backends[pid] = true
}

// ConfirmRead makes sure that the synchronous standby, if there is one, has a record with an outcome, which was read from
// that server to answer from it. An error means that this is not known. ErrRace: another server has taken over, which may
// not have it.
func (d *Database) ConfirmRead(ctx context.Context, by Server) error {
	if !by.Started.Valid || d.Confirmed.Has(by.Started.Int64, by.PID) {
		return nil
	}
	err := d.Confirm(ctx, by.Started.Int64)
	switch {
	case errors.Is(err, ErrAnotherServer):
		return ErrRace
	case err != nil:
		return fmt.Errorf("idem: gormstore: the server may have lost its standby since this was committed: %w", err)
	}
	d.Confirmed.add(by.Started.Int64, by.PID)
	return nil
}

// StallOf is the watcher of a write that is never cancelled: of the backend pid, or of the record id.
func (d *Database) StallOf(pid uint32, id store.ID) Watcher {
	return func(leave func()) func() bool {
		return d.Stalls.Watch(d.atStandby(pid, id), leave)
	}
}

// atStandby returns a function that reports whether the server waits for its standby: with the transaction of a backend, or
// with a write of a record that others cannot see yet.
func (d *Database) atStandby(pid uint32, id store.ID) func(ctx context.Context) bool {
	return func(ctx context.Context) (waits bool) {
		err := d.QueryRow(ctx, d.Pool, atStandby, int64(pid), id[:]).Scan(&waits)
		return err == nil && waits
	}
}
