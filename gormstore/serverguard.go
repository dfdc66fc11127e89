package gormstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

const askForCheck = "SELECT pg_catalog.set_config('client_connection_check_interval', '500', true)"

// probeConnectionCheck finds out once whether the server can check that its client is still connected (PostgreSQL 14).
func (d *database) probeConnectionCheck(ctx context.Context, c *sql.Conn) error {
	if d.connectionCheck.Load() != 0 {
		return nil
	}
	_, err := c.ExecContext(ctx, askForCheck)
	switch {
	case err == nil:
		d.connectionCheck.Store(1)
	case slices.Contains([]string{"42704", "22023", "42501"}, txn.SQLState(err)):
		d.connectionCheck.Store(2) // the parameter is unknown, or not for this system, or not for this user
	default:
		return err
	}
	return nil
}

// beginGuarded opens a transaction that the server ends by itself when its process or host is gone, or when it does nothing
// for longer than idle, and reads its mark. A setting of the role or the connection that guards as well stays, and costs
// nothing. lock is a key's lock to wait for, nil for none. more comes in the same message.
func (d *database) beginGuarded(
	ctx context.Context, own *sql.Conn, idle time.Duration, m *txMark, lock any, more ...txn.Call,
) error {
	if err := d.probeConnectionCheck(ctx, own); err != nil {
		return err
	}
	first, err := d.call(ctx, own, begun, m.targets(), append(d.guards(idle), lock)...)
	if err != nil {
		return err
	}
	return txn.Ask(ctx, own, d.opening(append([]txn.Call{first}, more...)...)...)
}

// timeLeft is how long ctx still allows; the default deadline where it has none.
func timeLeft(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return store.DefaultDeadline
}

// opening are the calls that begin a transaction. Where the driver does not show the transaction's status, the library's
// savepoint stands in for it: see tx.rollback.
func (d *database) opening(first ...txn.Call) []txn.Call {
	calls := append(make([]txn.Call, 0, 5), txn.Call{Text: d.dialect.begin})
	return append(append(calls, first...), txn.Call{Text: setSavepoint, Blind: true})
}
