package gormstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"time"

	"github.com/auth19/idem/core"
)

// marker is the entry of a message's transaction: that the group has processed it.
type marker struct {
	group, source, message string
	payload                [sha256.Size]byte
	published              sql.NullInt64 // in microseconds since 1970
	keep                   time.Duration
	id                     core.ID // of group, source and message: no record has the same one
}

func newMarker(c InboxConfig, m Message) marker {
	mk := marker{group: c.Group, source: m.Source, message: m.ID, payload: sha256.Sum256(m.Payload), keep: c.Keep}
	if !m.Published.IsZero() {
		mk.published = sql.NullInt64{Int64: m.Published.UnixMicro(), Valid: true}
	}
	fields := []byte("message/1")
	for _, field := range []string{mk.group, mk.source, mk.message} {
		fields = append(binary.AppendUvarint(fields, uint64(len(field))), field...)
	}
	mk.id = core.ID(sha256.Sum256(fields))
	return mk
}

// markerKey is the condition that finds a marker by the first three of its args.
const markerKey = `m.consumer_group = $1{text} AND m.source = $2{text} AND m.message_id = $3{text}`

// newMark makes a marker out of args, unless the message was published longer ago than a marker lives: then one may have
// been there, and be gone. The life of a marker is counted from the later of the two clocks, so that a publisher whose
// clock is ahead cannot outlive it.
const (
	newMark = `INSERT INTO {schema}.processed_message (consumer_group, source, message_id, payload_hash, processed_at, expires_at)
	SELECT $1{text}, $2{text}, $3{text}, $4{bytes}, c.now, {later}(c.now, ` + published + `) + $6{µs} FROM `
	published = `coalesce({epoch}$5{µs}, c.now)`
	isFresh   = published + ` + $6{µs} > c.now`
	unlessHad = ` ON CONFLICT (consumer_group, source, message_id) DO NOTHING`
)

// markPostgres looks and marks in one statement. As in claimPostgres, the primary key is the judge, and the advisory lock
// only lets a second delivery go at once. With the lock, fresh, and neither won nor visible, the marker was committed
// after the statement's snapshot: ask again.
const markPostgres = `WITH there AS MATERIALIZED (
	SELECT m.payload_hash FROM {schema}.processed_message m WHERE ` + markerKey + `
), c AS MATERIALIZED (
	SELECT pg_catalog.clock_timestamp() AS now,
		CASE WHEN NOT EXISTS (SELECT 1 FROM there) THEN pg_catalog.pg_try_advisory_xact_lock($7::bigint) END AS lock
), won AS (
	` + newMark + `c WHERE c.lock AND ` + isFresh + unlessHad + ` RETURNING 1 AS one
)
SELECT c.lock, won.one IS NOT NULL, NOT (` + isFresh + `), there.payload_hash, pg_catalog.pg_backend_pid()
FROM c LEFT JOIN won ON true LEFT JOIN there ON true`

const (
	markSQLite     = newMark + clock + ` WHERE ` + isFresh + unlessHad
	payloadHash    = `SELECT m.payload_hash FROM {schema}.processed_message m WHERE ` + markerKey
	touchMarker    = `UPDATE {schema}.processed_message AS m SET expires_at = m.expires_at WHERE ` + markerKey
	forgetMessages = `DELETE FROM {schema}.processed_message AS m WHERE (m.consumer_group, m.source, m.message_id) IN (
	SELECT e.consumer_group, e.source, e.message_id FROM {schema}.processed_message e
	WHERE e.expires_at <= {now} ORDER BY e.expires_at LIMIT $1 {skip locked})`
)

// messageSpace is the namespace of the advisory locks of messages, as lockSpace is of records.
const messageSpace = 0x6964656d6d657373 // "idemmess"

func (m marker) key() []any { return []any{m.group, m.source, m.message} }

// args are $1 to $6 of the statements that make a marker.
func (m marker) args() []any {
	return append(m.key(), m.payload[:], m.published, m.keep.Microseconds())
}

// compare says what a delivery is whose message has been processed with a payload of this hash.
func (m marker) compare(hash []byte) error {
	if bytes.Equal(hash, m.payload[:]) {
		return errDuplicate
	}
	return ErrMessageReused
}

func (s *Store) payloadHash(ctx context.Context, q querier, m marker) (hash []byte, err error) {
	err = s.queryRow(ctx, q, payloadHash, m.key()...).Scan(&hash)
	return hash, err
}

func (m marker) lock() int64 { return lockKey(m.id) ^ lockSpace ^ messageSpace }

func (m marker) trace() (string, []any) {
	return `SELECT 1 FROM {schema}.processed_message m WHERE ` + markerKey, m.key()
}

func (m marker) committed(ctx context.Context, s *Store, q querier) (bool, error) {
	hash, err := s.payloadHash(ctx, q, m)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return bytes.Equal(hash, m.payload[:]), err
}

func (m marker) touch() (string, []any) { return touchMarker, m.key() }

func (m marker) leave(s *Store) {
	if s.embedded != nil {
		s.embedded.unreserve(m.id)
	}
}

// MessageKey returns what stands for the message and group of the inbox whose transaction ctx belongs to, as an
// operation's id stands for an attempt: see [core.DeriveKey]. False outside [Inbox.Process].
func MessageKey(ctx context.Context) (core.ID, bool) {
	if t := txFrom(ctx); t != nil {
		if m, ok := t.entry.(marker); ok {
			return m.id, true
		}
	}
	return core.ID{}, false
}
