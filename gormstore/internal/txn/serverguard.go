package txn

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

const askForCheck = "SELECT pg_catalog.set_config('client_connection_check_interval', '500', true)"

// ProbeConnectionCheck finds out once whether the server can check that its client is still connected (PostgreSQL 14).
func (d *Database) ProbeConnectionCheck(ctx context.Context, c *sql.Conn) error {
	if d.ConnectionCheck.Load() != 0 {
		return nil
	}
	_, err := c.ExecContext(ctx, askForCheck)
	switch {
	case err == nil:
		d.ConnectionCheck.Store(1)
	case slices.Contains([]string{"42704", "22023", "42501"}, SQLState(err)):
		d.ConnectionCheck.Store(2) // the parameter is unknown, or not for this system, or not for this user
	default:
		return err
	}
	return nil
}

// BeginGuarded opens a transaction that the server ends by itself when its process or host is gone, or when it does nothing
// for longer than idle, and reads its mark. A setting of the role or the connection that guards as well stays, and costs
// nothing. lock is a key's lock to wait for, nil for none. more comes in the same message.
func (d *Database) BeginGuarded(
	ctx context.Context, own *sql.Conn, idle time.Duration, m *Mark, lock any, more ...Call,
) error {
	if d.Dialect == SQLite {
		return Ask(ctx, own, d.Opening(m, more...)...)
	}
	if err := d.ProbeConnectionCheck(ctx, own); err != nil {
		return err
	}
	first, err := d.CallOf(ctx, own, begun, m.Targets(), append(d.Guards(idle), lock)...)
	if err != nil {
		return err
	}
	return Ask(ctx, own, d.Opening(m, append([]Call{first}, more...)...)...)
}

// TimeLeft is how long ctx still allows; the default deadline where it has none.
func TimeLeft(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return store.DefaultDeadline
}

// Opening are the calls that begin a transaction. On SQLite the library's savepoint is its mark. On PostgreSQL it stands in
// for the transaction's status where the driver does not show that: see Tx.RollbackOurs.
func (d *Database) Opening(m *Mark, first ...Call) []Call {
	calls := append(make([]Call, 0, 5), Call{Text: d.Dialect.Begin})
	return append(append(calls, first...), Call{Text: m.set(), Blind: true})
}
