package inbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// marker is the entry of a message's transaction: that the group has processed it.
type marker struct {
	db                     *txn.Database
	group, source, message string
	payload                [sha256.Size]byte
	published              sql.NullInt64 // in microseconds since 1970
	keep                   time.Duration
	id                     store.ID // of group, source and message: no record has the same one
	attempt                store.Owner
	made                   *txn.Moment // when this delivery has made it; NULL: it has not
}

func (i *Inbox) marker(m Message) marker {
	mk := marker{
		db: i.db, group: i.cfg.Group, source: m.Source, message: m.ID, payload: sha256.Sum256(m.Payload), keep: i.cfg.Keep,
		made: new(txn.Moment),
	}
	_, _ = rand.Read(mk.attempt[:]) // never fails
	if !m.Published.IsZero() {
		mk.published = sql.NullInt64{Int64: m.Published.UnixMicro(), Valid: true}
	}
	fields := []byte("message/1")
	for _, field := range []string{mk.group, mk.source, mk.message} {
		fields = append(binary.AppendUvarint(fields, uint64(len(field))), field...)
	}
	mk.id = store.ID(sha256.Sum256(fields))
	return mk
}

// messageSpace is the namespace of the advisory locks of messages, as dialect.LockSpace is of records.
const messageSpace = 0x6964656d6d657373 // "idemmess"

func (m marker) key() []any { return []any{m.group, m.source, m.message} }

// args are $1 to $6 of the statements that make a marker.
func (m marker) args() []any {
	return append(m.key(), m.payload[:], m.published, m.keep.Microseconds())
}

// duplicate is the error of a delivery whose message was processed before. started is when the server was started on which
// the marker was seen; 0: there is no synchronous standby.
type duplicate struct{ started int64 }

// Error implements error.
func (duplicate) Error() string { return "idem: inbox: the message has been processed before" }

// compare returns the error of a delivery whose message was processed before, with a payload of this hash, as a server says
// that was started then.
func (m marker) compare(hash []byte, started int64) error {
	switch {
	case bytes.Equal(hash, m.payload[:]):
		return duplicate{started}
	case bytes.Equal(hash, unknownPayload[:]):
		return ErrUnknown
	}
	return ErrReused
}

// unknownPayload replaces the payload's hash if it is not known which rows of a message were committed.
var unknownPayload [sha256.Size]byte

func (m marker) RecordUnknown(ctx context.Context, q txn.Querier, _ time.Duration) error {
	m.payload = unknownPayload
	_, err := m.db.Exec(ctx, q, loseMarker, append(m.args(), *m.made)...)
	return err
}

func (m marker) payloadHash(ctx context.Context, q txn.Querier) (hash []byte, err error) {
	err = m.db.QueryRow(ctx, q, payloadHash, m.key()...).Scan(&hash)
	return hash, err
}

func (m marker) Lock() int64 { return txn.LockKey(m.id) ^ dialect.LockSpace ^ messageSpace }

func (m marker) Committed(ctx context.Context, q txn.Querier) (bool, error) {
	hash, err := m.payloadHash(ctx, q)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return bytes.Equal(hash, m.payload[:]), err
}

func (m marker) Unreserve() { m.db.Process.Unreserve(m.id, m.attempt) }

// The statements, in internal/dialect/statements/messages.sql.
const (
	mark        txn.Statement = "mark"
	payloadHash txn.Statement = "payloadHash"
	loseMarker  txn.Statement = "loseMarker"
	raiseFloor  txn.Statement = "raiseFloor"
)
