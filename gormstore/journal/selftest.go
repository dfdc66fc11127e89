package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// try plans an intent, begins it, and ends it (F-8).
func (j *Journal) try(ctx context.Context, t *txn.Tx) error {
	j = &Journal{db: j.db, now: time.Now, skew: txn.AnyClock}
	own, intent, key, by := t.Conn.SQL, "Idem self-test "+rand.Text(), rand.Text(), []byte(rand.Text())
	database, err := j.askDatabase(ctx, own)
	if err != nil {
		return err
	}
	changes := func(name txn.Statement, args ...any) error {
		n, err := j.db.Exec(ctx, own, name, args...)
		if err == nil && n != 1 {
			err = txn.Altered(name, "the intent")
		}
		return err
	}
	if err := changes(planIntent, database, intent, key); err != nil {
		return err
	}
	sum := [32]byte{0, 0xff}
	var begun intentRow
	err = j.begin(ctx, own, &begun, intent, key, 1, sum[:], by)
	switch {
	case errors.Is(err, store.ErrClock), err == nil && (begun.Intent != intent || begun.Key != key || begun.Ended ||
		begun.Command.Sum != sum || !bytes.Equal(begun.begunBy, by)):
		return txn.Altered(beginIntent, "the intent")
	case err != nil:
		return err
	}
	if err := changes(endIntent, j.inWindow(intent)...); err != nil {
		return err
	}
	var ended intentRow
	if err := j.scan(&ended, j.db.QueryRow(ctx, own, findIntent, intent).Scan); err != nil || ended.Ended {
		return err
	}
	return txn.Altered(endIntent, "the intent")
}
