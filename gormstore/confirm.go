package gormstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

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
