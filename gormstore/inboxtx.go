package gormstore

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
	var before duplicate
	switch {
	case errors.As(err, &before):
		// Its marker can be visible before the standby has it, and a broker never delivers an acknowledged message again (F-2).
		return cmp.Or(i.db.confirm(ctx, before.started), err)
	case errors.Is(err, ErrMessageTooOld):
		return cmp.Or(i.db.write(ctx, func(q querier) error { return i.refuse(ctx, q, m) }), err)
	case err != nil:
		return err
	}
	err = t.run(ctx, fn, t.commitOnly)
	if errors.Is(err, store.ErrEnded) {
		err = fmt.Errorf("%w: %w", ErrMessageUnknown, err)
	}
	return err
}

// begin opens a transaction and puts the marker in it.
func (i *Inbox) begin(ctx context.Context, m marker) (t *tx, err error) {
	if !i.db.file.reserve(m.id, m.attempt) {
		return nil, ErrMessageBusy
	}
	leave, err := i.db.enterMessage(ctx)
	if err != nil {
		m.leave()
		return nil, err
	}
	err = txn.Retry(ctx, func() error {
		t, err = i.beginMessage(ctx, m)
		return err
	})
	if err != nil {
		leave()
		m.leave()
	} else {
		t.release = leave
	}
	if errors.Is(err, errRace) { // other deliveries won each time
		err = ErrMessageBusy
	}
	return t, err
}

func (i *Inbox) beginMessage(ctx context.Context, m marker) (*tx, error) {
	d := i.db
	return d.open(ctx, m, func(t *tx) (err error) {
		own := t.conn.sql
		if d.dialect == postgres {
			err = d.beginGuarded(ctx, own, timeLeft(ctx), &t.mark, nil)
		} else {
			_, err = own.ExecContext(ctx, d.dialect.begin)
		}
		if err == nil {
			err = i.mark(ctx, own, m)
		}
		if err == nil && d.dialect == sqlite {
			_, err = own.ExecContext(ctx, setSavepoint) // see tx.stillOpen
		}
		return err
	})
}

// mark puts the marker into a transaction that has begun.
func (i *Inbox) mark(ctx context.Context, q querier, m marker) (err error) {
	if i.db.dialect == postgres {
		err = i.markPostgres(ctx, q, m)
	} else {
		err = i.markSQLite(ctx, q, m)
	}
	if err != nil && noSuchTable(err) {
		err = fmt.Errorf("idem: gormstore: the table processed_message is missing: run gormstore.Migrate: %w", err)
	}
	return err
}

func (i *Inbox) markPostgres(ctx context.Context, q querier, m marker) error {
	args := append(m.args(), m.lock())
	for range txn.MaxTries {
		var lock sql.NullBool
		var won, late flag
		var hash []byte
		var started sql.NullTime
		err := i.db.queryRow(ctx, q, mark, args...).Scan(&lock, &won, &late, &hash, &started)
		switch {
		case err != nil:
			return err
		case bool(won):
			return nil
		case hash != nil:
			return m.compare(hash, started.Time)
		case !lock.Bool:
			return ErrMessageBusy
		case bool(late):
			return ErrMessageTooOld
		}
	}
	return errRace
}

func (i *Inbox) markSQLite(ctx context.Context, q querier, m marker) error {
	n, err := i.db.exec(ctx, q, mark, m.args()...)
	if err != nil || n == 1 {
		return err
	}
	hash, err := m.payloadHash(ctx, q)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrMessageTooOld
	case err != nil:
		return err
	}
	return m.compare(hash, time.Time{})
}

// refuse records that the message is too old. So it is also too old for a later release whose markers live longer.
func (i *Inbox) refuse(ctx context.Context, q querier, m marker) error {
	_, err := i.db.exec(ctx, q, raiseFloor, m.group, m.source, m.published)
	return err
}
