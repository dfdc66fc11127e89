package gormstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// marker is the entry of a message's transaction: that the group has processed it.
type marker struct {
	group, source, message string
	payload                [sha256.Size]byte
	published              sql.NullInt64 // in microseconds since 1970
	keep                   time.Duration
	id                     store.ID // of group, source and message: no record has the same one
	attempt                store.Owner
}

func newMarker(c InboxConfig, m Message) marker {
	mk := marker{group: c.Group, source: m.Source, message: m.ID, payload: sha256.Sum256(m.Payload), keep: c.Keep}
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

// messageSpace is the namespace of the advisory locks of messages, as lockSpace is of records.
const messageSpace = 0x6964656d6d657373 // "idemmess"

func (m marker) key() []any { return []any{m.group, m.source, m.message} }

// args are $1 to $6 of the statements that make a marker.
func (m marker) args() []any {
	return append(m.key(), m.payload[:], m.published, m.keep.Microseconds())
}

// duplicate is the error of a delivery whose message was processed before. started is when the server was started on which
// the marker was seen; zero: there is no synchronous standby.
type duplicate struct{ started time.Time }

// Error implements error.
func (duplicate) Error() string { return "idem: gormstore: the message has been processed before" }

// compare returns the error of a delivery whose message was processed before, with a payload of this hash, as a server says
// that was started then.
func (m marker) compare(hash []byte, started time.Time) error {
	switch {
	case bytes.Equal(hash, m.payload[:]):
		return duplicate{started}
	case bytes.Equal(hash, unknownPayload[:]):
		return ErrMessageUnknown
	}
	return ErrMessageReused
}

// unknownPayload replaces the payload's hash if it is not known which rows of a message were committed.
var unknownPayload [sha256.Size]byte

func (m marker) lose(ctx context.Context, s *Store, q querier, _ time.Duration) error {
	m.payload = unknownPayload
	_, err := s.exec(ctx, q, loseMarker, m.args()...)
	return err
}

func (s *Store) payloadHash(ctx context.Context, q querier, m marker) (hash []byte, err error) {
	err = s.queryRow(ctx, q, payloadHash, m.key()...).Scan(&hash)
	return hash, err
}

func (m marker) lock() int64 { return lockKey(m.id) ^ lockSpace ^ messageSpace }

func (m marker) trace() (statement, []any) { return traceMarker, m.key() }

func (m marker) committed(ctx context.Context, s *Store, q querier) (bool, error) {
	hash, err := s.payloadHash(ctx, q, m)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return bytes.Equal(hash, m.payload[:]), err
}

func (m marker) leave(s *Store) {
	if s.file != nil {
		s.file.unreserve(m.id, m.attempt)
	}
}

// forgetMessages deletes at most limit markers whose time is over, and raises the floors that remember them.
func (s *Store) forgetMessages(ctx context.Context, limit int, w store.Window) (n int, err error) {
	err = s.inTx(ctx, func(q querier) error {
		var floors map[stream]int64
		if n, floors, err = s.removeMessages(ctx, q, limit, w); err != nil {
			return err
		}
		for _, f := range slices.SortedFunc(maps.Keys(floors), stream.compare) { // sorted, so that two sweeps do not deadlock
			if _, err := s.exec(ctx, q, raiseFloor, f.group, f.source, floors[f]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// stream is a source and the group that processes its messages.
type stream struct{ group, source string }

func (f stream) compare(other stream) int {
	return cmp.Or(cmp.Compare(f.group, other.group), cmp.Compare(f.source, other.source))
}

// removeMessages returns how many markers it has deleted, and for each stream when the latest of their messages was
// published.
func (s *Store) removeMessages(ctx context.Context, q querier, limit int, w store.Window) (
	n int, floors map[stream]int64, err error,
) {
	floors = make(map[stream]int64)
	err = s.each(ctx, q, forgetMessages, func(scan func(...any) error) error {
		var f stream
		var published instant
		if err := scan(&f.group, &f.source, &published); err != nil {
			return err
		}
		n++
		if at, known := floors[f]; !published.IsZero() && (!known || at < published.UnixMicro()) {
			floors[f] = published.UnixMicro()
		}
		return nil
	}, limit, micros(w.From), latest(w))
	return n, floors, err
}
