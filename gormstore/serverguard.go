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
func (s *Store) probeConnectionCheck(ctx context.Context, c *sql.Conn) error {
	if s.connectionCheck.Load() != 0 {
		return nil
	}
	_, err := c.ExecContext(ctx, askForCheck)
	switch {
	case err == nil:
		s.connectionCheck.Store(1)
	case slices.Contains([]string{"42704", "22023", "42501"}, txn.SQLState(err)):
		s.connectionCheck.Store(2) // the parameter is unknown, or not for this system, or not for this user
	default:
		return err
	}
	return nil
}

// beginGuarded opens a transaction that the server ends by itself when its process or host is gone, or when it does nothing
// for longer than idle, and reads its mark. A setting of the role or the connection that guards as well stays, and costs
// nothing. lock is a key's lock to wait for, nil for none. more comes in the same message.
func (s *Store) beginGuarded(
	ctx context.Context, own *sql.Conn, idle time.Duration, m *txMark, lock any, more ...txn.Call,
) error {
	if err := s.probeConnectionCheck(ctx, own); err != nil {
		return err
	}
	first, err := s.call(ctx, own, begun, m.targets(), append(s.guards(idle), lock)...)
	if err != nil {
		return err
	}
	return txn.Ask(ctx, own, s.opening(append([]txn.Call{first}, more...)...)...)
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
func (s *Store) opening(first ...txn.Call) []txn.Call {
	calls := append(make([]txn.Call, 0, 5), txn.Call{Text: s.dialect.begin})
	return append(append(calls, first...), txn.Call{Text: setSavepoint, Blind: true})
}
