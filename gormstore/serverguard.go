package gormstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/auth19/idem/core"
)

// probeConnectionCheck finds out once whether the server can check that its client is still connected (PostgreSQL 14).
func (s *Store) probeConnectionCheck(ctx context.Context, c *sql.Conn) error {
	if s.connectionCheck.Load() != 0 {
		return nil
	}
	_, err := c.ExecContext(ctx, "SELECT pg_catalog.set_config('client_connection_check_interval', '500', true)")
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

// These open a transaction with the settings of claimKey, in one round trip: the rows of a step are locked too, and its
// process or host may be gone. SET takes no parameters; the number is the time for which the server lets the transaction do
// nothing, in milliseconds.
const (
	guardedBegin = `BEGIN; SET LOCAL tcp_user_timeout = 10000; SET LOCAL idle_in_transaction_session_timeout = %d;
SELECT pg_catalog.set_config('idem.synchronous_commit',
	pg_catalog.replace(pg_catalog.current_setting('synchronous_commit'), 'off', 'on'), true)`

	guardedBeginChecked = `BEGIN; SET LOCAL tcp_user_timeout = 10000; SET LOCAL idle_in_transaction_session_timeout = %d;
SELECT pg_catalog.set_config('idem.synchronous_commit',
	pg_catalog.replace(pg_catalog.current_setting('synchronous_commit'), 'off', 'on'), true);
SET LOCAL client_connection_check_interval = 500`
)

// beginGuarded opens a transaction that the server ends by itself when its process or host is gone.
func (s *Store) beginGuarded(ctx context.Context, own *sql.Conn) error {
	if err := s.probeConnectionCheck(ctx, own); err != nil {
		return err
	}
	left := core.DefaultDeadline
	if deadline, ok := ctx.Deadline(); ok {
		left = max(time.Until(deadline), time.Second)
	}
	begin := guardedBegin
	if s.connectionCheck.Load() == 1 {
		begin = guardedBeginChecked
	}
	_, err := own.ExecContext(ctx, fmt.Sprintf(begin, left.Milliseconds()))
	return err
}

// guardOf is how long the server lets an attempt's transaction do nothing, in milliseconds: the attempt's deadline.
func guardOf(deadline time.Duration) string { return strconv.FormatInt(deadline.Milliseconds(), 10) }
