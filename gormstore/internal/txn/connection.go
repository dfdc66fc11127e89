package txn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// endTimeout bounds a ROLLBACK. A connection that does not answer is closed, and the server rolls back by itself.
const endTimeout = 5 * time.Second

// Ending is the context of a ROLLBACK, and of what is done instead of it: the attempt's own has ended, as a rule.
func Ending() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), endTimeout)
}

// Rollback ends the transaction on c, if there is one, and gives the connection back.
func Rollback(c *sql.Conn) {
	ctx, cancel := Ending()
	defer cancel()
	if _, err := c.ExecContext(ctx, "ROLLBACK"); err != nil {
		Discard(c) // a connection with an open transaction must not go back to the pool
		return
	}
	_ = c.Close()
}

// Discard closes a connection for good instead of giving it back to the pool.
func Discard(c *sql.Conn) { dialect.Discard(c) }

// giveBack gives a connection back whose last statement has ended with err, for good where its server takes no writes: the
// pool would hand it out again, before others that lead to the primary.
func giveBack(own *sql.Conn, err error) {
	if takesNoWrites(err) {
		Discard(own)
		return
	}
	_ = own.Close()
}

// Undo ends a transaction whose last statement has ended with err, as Rollback and giveBack do.
func Undo(own *sql.Conn, err error) {
	switch {
	case takesNoWrites(err):
		Discard(own)
	case Status(own) == Idle: // it has been ended
		_ = own.Close()
	default:
		Rollback(own)
	}
}

// Guarded is a connection with the library's own guard around it.
type Guarded interface{ BelowGuard() driver.Conn }

// Pgx is the connection of pgx's driver for database/sql, also below the guard; not ok: it is another driver's, or wrapped.
func Pgx(connection any) (std *stdlib.Conn, ok bool) {
	if guarded, ok := connection.(Guarded); ok {
		connection = guarded.BelowGuard()
	}
	std, ok = connection.(*stdlib.Conn)
	return std, ok
}

// backend is the server's process behind a connection, as the driver knows it: see gormstore.Store.Notice. 0: it does not.
func backend(own *sql.Conn) (pid uint32) {
	_ = own.Raw(func(connection any) error {
		if std, ok := Pgx(connection); ok {
			pid = std.Conn().PgConn().PID()
		}
		return nil
	})
	return pid
}

// What the server says of a transaction at the end of each of its answers, as pgx keeps it.
const (
	Idle    = 'I' // there is none
	Failed  = 'E' // a statement in it has failed
	Unknown = 0   // another driver, or a wrapped one, which does not show it
)

// Status returns the server's word on the transaction of a connection.
func Status(own *sql.Conn) (s byte) {
	_ = own.Raw(func(connection any) error {
		if std, ok := Pgx(connection); ok {
			s = std.Conn().PgConn().TxStatus()
		}
		return nil
	})
	return s
}
