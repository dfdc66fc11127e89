package inbox

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/auth19/idem/gormstore/internal/txn"
)

// try marks a message, meets its marker, and loses its outcome (F-8).
func (i *Inbox) try(ctx context.Context, t *txn.Tx) error {
	own := t.Conn.SQL
	i = &Inbox{db: i.db, cfg: i.cfg}
	i.cfg.MaxClockSkew = txn.AnyClock
	message := Message{Source: "idem self-test", ID: rand.Text(), Payload: []byte("payload")}
	first := i.marker(message)
	if err := i.mark(ctx, own, first); err != nil {
		return notMarked(mark, err)
	}
	if err := i.mark(ctx, own, i.marker(message)); !errors.As(err, &duplicate{}) {
		return notMarked(mark, err)
	}
	if err := first.RecordUnknown(ctx, own, 0); err != nil {
		return err
	}
	if err := i.mark(ctx, own, i.marker(message)); !errors.Is(err, ErrUnknown) {
		return notMarked(loseMarker, err)
	}
	return nil
}

// notMarked is an error of the database, or what it means that a delivery has met something else than the marker.
func notMarked(name txn.Statement, err error) error {
	if err == nil || errors.Is(err, txn.ErrRace) || errors.Is(err, ErrReused) || errors.As(err, &duplicate{}) {
		return txn.Altered(name, "the marker")
	}
	return err
}
