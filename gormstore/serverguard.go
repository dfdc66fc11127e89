package gormstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/auth19/idem/core"
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
	case slices.Contains([]string{"42704", "22023", "42501"}, sqlState(err)):
		s.connectionCheck.Store(2) // the parameter is unknown, or not for this system, or not for this user
	default:
		return err
	}
	return nil
}

// beginGuarded opens a transaction that the server ends by itself when its process or host is gone, and returns its mark. A
// setting of the role or the connection that guards as well stays, and costs nothing.
func (s *Store) beginGuarded(ctx context.Context, own *sql.Conn) (m txMark, err error) {
	if err := s.probeConnectionCheck(ctx, own); err != nil {
		return m, err
	}
	left := core.DefaultDeadline
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	first, err := s.call(ctx, own, begun, m.targets(), append(s.guards(left), nil)...)
	if err == nil {
		err = s.ask(ctx, own, s.opening(first)...)
	}
	return m, err
}

// opening are the calls that begin a transaction. Where the driver does not show the transaction's status, the library's
// savepoint stands in for it: see tx.rollback.
func (s *Store) opening(first ...call) []call {
	calls := append(make([]call, 0, 5), call{text: s.dialect.begin})
	return append(append(calls, first...), call{text: setSavepoint, blind: true})
}
