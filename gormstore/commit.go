package gormstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/auth19/idem/core"
)

// commit sends COMMIT, together with the last statements, and waits for its end as long as ctx allows. A COMMIT that
// takes longer continues, because a server that waits for its standby must not be interrupted. If the connection stalls,
// it is abandoned: see stall.go.
func (t *tx) commit(ctx context.Context, together []PipelineStatement) error {
	outcome, stalled := make(chan error, 1), make(chan struct{})
	go func() {
		growStack()
		warned := t.store.notices.expect(t.pid)
		ended := t.store.stalls.watch(t.store.atStandby(t.pid, core.ID{}), func() {
			t.leave()
			close(stalled)
		})
		atCommit, err := t.sendCommit(context.WithoutCancel(ctx), together)
		left := ended()
		switch {
		case err == nil:
			_ = t.conn.sql.Close()
		case atCommit:
			rollback(t.conn.sql) // SQLite keeps the transaction open after some errors
		default:
			if err = t.noteLast(err); !t.rollback() {
				err = t.lose()
			}
		}
		if !left {
			t.leave()
		}
		if warned() && err == nil {
			err = errWarned
		}
		outcome <- err
	}()
	select {
	case err := <-outcome:
		switch {
		case err == nil:
			return nil
		case errors.Is(err, core.ErrEnded):
			t.lost = err
			return err
		}
		return t.readBack(ctx, err)
	case <-stalled:
		return t.readBack(ctx, errStalled)
	case <-ctx.Done():
		return fmt.Errorf("%w: COMMIT has not ended", core.ErrUnconfirmed)
	}
}

// sendCommit sends COMMIT, together with the last statements. atCommit says that an error is COMMIT's own. Otherwise, if
// the error comes from the server (see isRefusal), COMMIT was not run.
func (t *tx) sendCommit(ctx context.Context, together []PipelineStatement) (atCommit bool, err error) {
	const commit = "COMMIT"
	if len(together) == 0 {
		_, err = t.conn.sql.ExecContext(ctx, commit)
		return true, err
	}
	succeeded, err := t.store.send(ctx, t.conn.sql, append(together, PipelineStatement{Text: commit}))
	return succeeded >= len(together), err
}

// notCommitted classifies an error before COMMIT. An error of a statement is ErrAborted, unless it asks for a repeat of the
// whole command. A connection that broke is ErrRetryable.
func notCommitted(err error) error {
	if state := sqlState(err); state != "" && !isRetryable(err) && !strings.HasPrefix(state, "08") {
		return fmt.Errorf("%w: %w", core.ErrAborted, err)
	}
	return fmt.Errorf("%w: %w", core.ErrRetryable, err)
}

// readBack finds out whether a COMMIT that ended with err took effect. If the server refused it, nothing is
// committed. After any other error readBack looks for the entry on the primary. A missing entry is proof only if the old
// backend is gone, which is certain when its lock could be taken.
func (t *tx) readBack(ctx context.Context, err error) error {
	if isRefusal(err) {
		return notCommitted(err)
	}
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		committed, certain := t.look(ctx)
		switch {
		case committed:
			return nil
		case certain && t.store.dialect == sqlite: // a constraint that is checked at COMMIT, a full disk
			return fmt.Errorf("%w: %w", core.ErrAborted, err)
		case certain:
			return fmt.Errorf("%w: %w", core.ErrRetryable, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", core.ErrUnconfirmed, err)
		}
	}
}

// isRefusal reports that the server refused a COMMIT: a constraint, a conflict. Errors of the connection, the server or a
// pooler in between say nothing about the transaction: classes 08, 53, 57, 58 and XX.
func isRefusal(err error) bool {
	state := sqlState(err)
	return state != "" && !slices.Contains([]string{"08", "53", "57", "58", "XX"}, state[:min(2, len(state))])
}

// look reads whether this transaction's entry is committed, and whether that is certain if it is not.
func (t *tx) look(ctx context.Context) (committed, certain bool) {
	s := t.store
	lockErr := s.inTx(ctx, func(q querier) error {
		locked := true // SQLite: this process holds the writer
		if s.dialect == postgres {
			var standby bool
			if err := s.queryRow(ctx, q, tryLock, t.entry.lock()).Scan(&locked, &standby); err != nil {
				return err
			}
			locked = locked && !standby
		}
		there, err := t.entry.committed(ctx, s, q)
		committed, certain = there, err == nil && locked
		if there && err == nil {
			// The entry is here, but perhaps not on the standby yet: its COMMIT may have been interrupted during the wait.
			name, args := t.entry.touch()
			_, err = s.exec(ctx, q, name, args...)
		}
		return err
	})
	return committed && lockErr == nil, certain && lockErr == nil
}
