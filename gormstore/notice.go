package gormstore

import (
	"context"
	"time"

	"gorm.io/gorm"

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
		s.db.Notices.Warn(pid)
	}
}

// ErrAnotherServer is the error of [Confirm] where the server is not the one that was read from.
var ErrAnotherServer = txn.ErrAnotherServer

// Confirm returns when the synchronous standby of db's server, if there is one, has everything that can be seen on the
// server now. A row can be seen before the standby has it, when its COMMIT was cancelled or the server restarted while
// COMMIT waited for the standby. Call Confirm before you act on such a row elsewhere: a failover could lose the row (F-2).
// started is pg_postmaster_start_time() of the server that was read from. On SQLite Confirm does nothing.
//
// Errors: [ErrAnotherServer]; the end of ctx; the database's. Nothing is known then.
func Confirm(ctx context.Context, db *gorm.DB, started time.Time) error {
	d, err := txn.Of(db, WriteGuard())
	if err != nil {
		return err
	}
	return d.Confirm(ctx, txn.Micros(started))
}
