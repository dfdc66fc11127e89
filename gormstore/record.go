package gormstore

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// recordScan takes the columns of a record, which look, find and list return in one order. Over pgx, its own types
// and those with its methods, as txn.Flag, cost a third of what other Scanners cost.
type recordScan struct {
	txn.Server                    // that has read it
	id, scope, realm, owner, hash []byte
	headers, body, ends           []byte
	fence                         pgtype.Int8
	attempts                      pgtype.Int4
	state, recovery, hashVersion  pgtype.Int2
	status, encoding              pgtype.Int2
	method, route, trace          pgtype.Text
	created, lease, deadline      pgtype.Int8
	expires, purge                pgtype.Int8
	partial, timed                txn.Flag
}

// targets are the variables for these columns, after those for the columns before them.
func (s *recordScan) targets(before ...any) []any {
	return append(slices.Grow(before, 25),
		&s.PID, &s.Started,
		&s.id, &s.scope, &s.realm, &s.owner, &s.fence, &s.state, &s.recovery, &s.method, &s.route, &s.hashVersion, &s.hash,
		&s.created, &s.lease, &s.deadline, &s.expires, &s.purge, &s.attempts, &s.timed, &s.trace, &s.ends,
		&s.status, &s.partial, &s.encoding, &s.headers, &s.body)
}

// record returns what was read at now.
func (s *recordScan) record(ctx context.Context, of *sealer, now time.Time) (store.Record, error) {
	rec := store.Record{
		Ticket: store.Ticket{Fence: s.fence.Int64}, Attempts: int(s.attempts.Int32),
		Method: s.method.String, Route: s.route.String,
		Recovery: store.Recovery(s.recovery.Int16), //nolint:gosec // written by this package, as are the states
		Stored:   store.State(s.state.Int16),       //nolint:gosec // as above
		Hash:     store.CommandHash{Version: s.hashVersion.Int16},
		Timed:    bool(s.timed), Traceparent: s.trace.String, Ends: s.ends,
		CreatedAt: txn.Time(s.created), LeaseUntil: txn.Time(s.lease), Deadline: txn.Time(s.deadline),
		ExpiresAt: txn.Time(s.expires), PurgeAt: txn.Time(s.purge), Now: now,
	}
	if len(s.id) != len(rec.ID) || len(s.scope) != len(rec.Scope) || len(s.realm) != len(rec.Realm) ||
		len(s.owner) != len(rec.Owner) ||
		len(s.hash) != len(rec.Hash.Sum) {
		return store.Record{}, errLength
	}
	copy(rec.ID[:], s.id)
	copy(rec.Scope[:], s.scope)
	copy(rec.Realm[:], s.realm)
	copy(rec.Owner[:], s.owner)
	copy(rec.Hash.Sum[:], s.hash)
	if rec.Stored != store.Completed { // a tombstone has none
		rec.Answer = store.Answer{Status: int(s.status.Int16), Partial: bool(s.partial)}
		return rec, nil
	}
	rec.Answer = of.openAnswer(ctx, rec.ID, s.stored())
	return rec, nil
}

// answerScan takes the columns of lookAnswer. None of them is NULL but the first and the third, so that drivers read them
// straight into the variables.
type answerScan struct {
	txn.Server                    // that has read it
	now                           pgtype.Int8
	owner, hash, headers, body    []byte
	fence, expires, purge         int64
	recovery, hashVersion, status int16
	encoding                      int16
	partial                       bool
	trace                         string
}

func (s *answerScan) targets() []any {
	return []any{&s.now, &s.PID, &s.Started, &s.owner, &s.fence, &s.recovery, &s.hashVersion, &s.hash, &s.expires, &s.purge,
		&s.status, &s.partial, &s.encoding, &s.headers, &s.body, &s.trace}
}

// record returns what a replay needs of the record: see [store.Claim].
func (s *answerScan) record(ctx context.Context, of *sealer, id store.ID) (rec store.Record, err error) {
	rec.ID, rec.Fence, rec.Stored = id, s.fence, store.Completed
	rec.Recovery = store.Recovery(s.recovery) //nolint:gosec // written by this package
	rec.Hash.Version, rec.Traceparent = s.hashVersion, s.trace
	if copy(rec.Hash.Sum[:], s.hash) != len(s.hash) || len(s.hash) != len(rec.Hash.Sum) {
		return store.Record{}, errLength
	}
	rec.ExpiresAt, rec.PurgeAt, rec.Now = time.UnixMicro(s.expires), time.UnixMicro(s.purge), txn.Time(s.now)
	rec.Answer = of.openAnswer(ctx, id, storedAnswer{int(s.status), s.partial, int64(s.encoding), s.headers, s.body})
	return rec, nil
}

var errLength = errors.New("idem: gormstore: a record has an id, scope, realm, owner or hash of the wrong length")

// stored is the answer as it was read.
func (s *recordScan) stored() storedAnswer {
	return storedAnswer{int(s.status.Int16), bool(s.partial), int64(s.encoding.Int16), s.headers, s.body}
}

// encodeHeaders returns the stored form of an answer's headers, nil for none: JSON, which people can read in the table. Each
// byte of a value becomes one character, because values need not be UTF-8.
func encodeHeaders(h http.Header) ([]byte, error) {
	if len(h) == 0 {
		return nil, nil
	}
	characters := func(v string) string {
		runes := make([]rune, len(v))
		for i := range len(v) {
			runes[i] = rune(v[i])
		}
		return string(runes)
	}
	for _, values := range h {
		if slices.ContainsFunc(values, beyondASCII) {
			h = h.Clone() // it is the caller's
			mapValues(h, characters)
			break
		}
	}
	return json.Marshal(h)
}

func decodeHeaders(stored []byte) (http.Header, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	var h http.Header
	if err := json.Unmarshal(stored, &h); err != nil {
		return nil, err
	}
	mapValues(h, func(v string) string {
		bytes := make([]byte, 0, len(v))
		for _, r := range v {
			bytes = append(bytes, byte(r)) //nolint:gosec // one character per byte, by encodeHeaders
		}
		return string(bytes)
	})
	return h, nil
}

// mapValues applies fn to the values that are not plain ASCII.
func mapValues(h http.Header, fn func(string) string) {
	for _, values := range h {
		for i, v := range values {
			if beyondASCII(v) {
				values[i] = fn(v)
			}
		}
	}
}

func beyondASCII(v string) bool {
	return strings.ContainsFunc(v, func(r rune) bool { return r >= utf8.RuneSelf })
}
