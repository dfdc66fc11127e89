package inbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// process runs fn in a transaction of the message's own.
func (i *Inbox) process(ctx context.Context, m marker, fn func(tx *gorm.DB) error) error {
	t, err := i.begin(ctx, m)
	switch {
	case errors.Is(err, ErrTooOld):
		return cmp.Or(i.db.Write(ctx, func(q txn.Querier) error { return i.raiseFloor(ctx, q, m) }), err)
	case err != nil:
		return err
	}
	err = t.Run(ctx, fn, t.CommitOnly)
	if errors.Is(err, store.ErrEnded) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

// begin opens a transaction and puts the marker in it.
func (i *Inbox) begin(ctx context.Context, m marker) (t *txn.Tx, err error) {
	if !i.db.Process.Reserve(m.id, m.attempt) {
		return nil, ErrBusy
	}
	leave, err := i.db.EnterMessage(ctx)
	if err != nil {
		m.Unreserve()
		return nil, err
	}
	err = txn.Retry(ctx, func() error {
		t, err = i.beginMessage(ctx, m)
		return err
	})
	if err != nil {
		leave()
		m.Unreserve()
	} else {
		t.LeaveLine = leave
	}
	if errors.Is(err, txn.ErrRace) { // other deliveries won each time
		err = ErrBusy
	}
	return t, err
}

func (i *Inbox) beginMessage(ctx context.Context, m marker) (*txn.Tx, error) {
	d := i.db
	return d.Begin(ctx, m, func(t *txn.Tx) (err error) {
		own := t.Conn.SQL
		if err = d.BeginGuarded(ctx, own, txn.TimeLeft(ctx), &t.Mark, nil); err == nil {
			err = i.mark(ctx, own, m)
		}
		if before, ok := errors.AsType[duplicate](err); ok {
			// Its marker can be visible before the standby has it, and a broker never delivers an acknowledged message again (F-2).
			err = cmp.Or(d.ConfirmOn(ctx, own, before.started), err)
		}
		return err
	})
}

// mark puts the marker into a transaction that has begun.
func (i *Inbox) mark(ctx context.Context, q txn.Querier, m marker) (err error) {
	if i.db.Dialect.Returns {
		err = i.markOrTell(ctx, q, m)
	} else {
		err = i.markAndAsk(ctx, q, m)
	}
	if err != nil && txn.NoSuchTable(err) {
		err = fmt.Errorf("idem: inbox: the table processed_message is missing: run gormstore.Migrate: %w", err)
	}
	return err
}

// markOrTell is mark by a statement that says why it has made no marker.
func (i *Inbox) markOrTell(ctx context.Context, q txn.Querier, m marker) error {
	w := i.window()
	args := append(m.args(), txn.Micros(w.From), txn.Latest(w))
	for range txn.MaxTries {
		var lock sql.NullBool
		var late, trusted txn.Flag
		var hash []byte
		var started txn.Moment
		row := []any{&lock, m.made, &late, &trusted, &hash, &started}
		err := i.db.AskLocked(ctx, q, m.Lock(), mark, nil, row, args...)
		switch {
		case err != nil:
			return err
		case m.made.Valid:
			return nil
		case hash != nil:
			return m.compare(hash, started.Int64)
		case !lock.Bool:
			return ErrBusy
		case !bool(trusted):
			return store.ErrClock
		case bool(late):
			return ErrTooOld
		}
	}
	return txn.ErrRace
}

// markAndAsk is mark by a statement that does not.
func (i *Inbox) markAndAsk(ctx context.Context, q txn.Querier, m marker) error {
	w := i.window()
	met := false
	for range max(1, i.db.Dialect.LockTries) { // the second time the lock is this delivery's own
		err := i.db.QueryRow(ctx, q, mark, append(m.args(), txn.Micros(w.From), txn.Latest(w), m.Lock())...).Scan(m.made)
		met = err != nil && i.db.Dialect.IsThere(err)
		switch {
		case err == nil && !m.made.Valid:
			return ErrTooOld
		case !met && !errors.Is(err, sql.ErrNoRows):
			return err
		}
		hash, err := m.payloadHash(ctx, q)
		if err == nil {
			return m.compare(hash, 0)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if locked, _, err := i.db.TryLock(ctx, q, m.Lock()); err != nil || !locked {
			return cmp.Or(err, ErrBusy)
		}
		if _, err = i.db.ClockWithin(ctx, q, w); err != nil {
			return err
		}
	}
	if met { // and dropped in between, each time
		return txn.ErrRace
	}
	return ErrTooOld
}

// window is what the database's clock may show now.
func (i *Inbox) window() store.Window { return txn.Around(time.Now(), i.cfg.MaxClockSkew) }

// raiseFloor records that the message is too old. So it is also too old for a later release whose markers live longer.
func (i *Inbox) raiseFloor(ctx context.Context, q txn.Querier, m marker) error {
	_, err := i.db.Exec(ctx, q, raiseFloor, m.group, m.source, m.published)
	return err
}
