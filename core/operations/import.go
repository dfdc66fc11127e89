package operations

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// Past is one row of an app's own idempotency table, to be imported: see [Operations.Import].
type Past struct {
	Principal core.Principal
	Key       string // as the client sent it, unquoted. On routes of UUIDKey and TimedKey its letter case does not count
	Method    string
	Route     string // the router's pattern, as in the table of routes

	// Answer is the client's answer: a status of 200 to 499, headers, and the body byte for byte. Leave it nil if the row
	// says that the request is still running, did not end, or ended with a 5xx. Such a command may have been applied, so its
	// operation becomes unknown, and must be settled.
	Answer *core.Answer

	CreatedAt time.Time // when the command came; not in the future
	// ExpiresAt is the end of the row's own retention, default CreatedAt + the route's Retention. The answer is replayed until
	// this time, but for 24 h to 72 h after CreatedAt (T-2). The route's Tombstone begins then, and lasts until ExpiresAt at
	// least (F-4).
	ExpiresAt time.Time
}

// importBatch is the number of records that go to the store at a time.
const importBatch = 100

// Import takes over the rows of an app's own idempotency table. A repeat of a command that was carried out before then
// gets its recorded answer, or a definite refusal, and does not run again. Import overwrites only records that are free
// (F-4). Repeat it until the result is [store.Imported.Done]: a key whose attempt is running is left alone, and the attempt
// may give it back. The app may serve requests meanwhile.
//
// Import stops at the first error: of rows, of the store, or of a row that cannot be imported. The error names such a row
// by its operation id. The batches before the error stay in the store, and are counted. Errors before the first row:
// [core.ErrScoping].
func (m *Operations) Import(ctx context.Context, rows iter.Seq2[Past, error]) (store.Imported, error) {
	var done store.Imported
	if err := m.module.CheckScoping(ctx); err != nil {
		return done, fmt.Errorf("idem: Import: %w", err)
	}
	batch := make([]core.Record, 0, importBatch)
	flush := func() error {
		taken, err := m.store.Import(ctx, batch)
		if err != nil {
			return fmt.Errorf("idem: Import: %w", err)
		}
		done.Added, done.Replaced, done.Running = done.Added+taken.Added, done.Replaced+taken.Replaced, done.Running+taken.Running
		done.Left += len(batch) - taken.Added - taken.Replaced - taken.Running
		batch = batch[:0]
		return nil
	}
	for row, err := range rows {
		if err != nil {
			return done, fmt.Errorf("idem: Import: read the rows: %w", err)
		}
		rec, err := m.imported(row, time.Now())
		if err != nil {
			return done, fmt.Errorf("idem: Import: operation %s: %w", m.cfg.Scoping.RecordID(row.Principal, row.Key), err)
		}
		if rec.State() == store.Free {
			done.Over++
			continue
		}
		if batch = append(batch, rec); len(batch) == importBatch {
			if err := flush(); err != nil {
				return done, err
			}
		}
	}
	return done, flush()
}

// imported is the record of a row.
func (m *Operations) imported(row Past, now time.Time) (core.Record, error) {
	route, guarded := m.in.Guarded(row.Method, row.Route)
	key, made, sendable := m.in.Sendable(route, row.Key)
	switch {
	case !guarded:
		return core.Record{}, fmt.Errorf("%q is not a guarded route; give Method and Route as in the table of routes",
			row.Method+" "+row.Route)
	case m.in.Lacks(row.Principal) != nil:
		return core.Record{}, errors.New("Principal: issuer and subject are required, and what Config.Scoping requires")
	case !sendable:
		return core.Record{}, errors.New("Key: want 1 to 255 visible ASCII characters; no client could send this one")
	case row.CreatedAt.IsZero() || row.CreatedAt.After(now):
		return core.Record{}, errors.New("CreatedAt: want a time that has passed")
	case row.Answer != nil && (row.Answer.Status < 200 || row.Answer.Status > 499):
		return core.Record{}, fmt.Errorf("Answer.Status: %d is not 200 to 499; leave Answer out, and the operation is unknown",
			row.Answer.Status)
	}
	rec := core.Record{
		Ticket: store.Ticket{ID: m.cfg.Scoping.RecordID(row.Principal, key), Owner: m.in.NewOwner(), Fence: 1},
		Scope:  m.cfg.Scoping.PrincipalScope(row.Principal), Realm: m.cfg.Scoping.PrincipalRealm(row.Principal),
		Method: row.Method, Route: row.Route, Recovery: route.Recovery,
		Hash: store.CommandHash{Version: store.UnknownHash}, Stored: store.Unknown, Attempts: 1,
		CreatedAt: row.CreatedAt, Now: now,
		// An old instance may still be running the command, and the operation must not be settled before that has ended
		//
		LeaseUntil: now.Add(route.Deadline), Deadline: now.Add(route.Deadline),
	}
	rec.Timed = isTimed(route) && !made.IsZero() && !made.After(row.CreatedAt.Add(store.MaxKeyAhead))
	if row.Answer == nil {
		return rec, nil
	}
	retention := route.Retention
	if !row.ExpiresAt.IsZero() {
		retention = min(max(row.ExpiresAt.Sub(row.CreatedAt), store.MinRetention), store.MaxRetention)
	}
	rec.Stored, rec.Answer = store.Completed, m.importedAnswer(*row.Answer, route)
	rec.LeaseUntil, rec.Deadline = row.CreatedAt, row.CreatedAt
	rec.ExpiresAt = row.CreatedAt.Add(retention)
	rec.PurgeAt = rec.ExpiresAt.Add(route.Tombstone)
	if rec.PurgeAt.Before(row.ExpiresAt) {
		rec.PurgeAt = row.ExpiresAt // the old table holds the key until then (F-4)
	}
	if longest := row.CreatedAt.Add(max(route.Retention, m.in.KeptFor)); rec.Timed && rec.PurgeAt.Before(longest) {
		rec.PurgeAt = longest // the record has to outlive the key
	}
	if rec.State() == store.Expired {
		rec.Stored, rec.Answer = store.Expired, core.Answer{Status: rec.Answer.Status}
	}
	return rec, nil
}

// importedAnswer returns the part of an answer that a request would have recorded.
func (m *Operations) importedAnswer(a core.Answer, route core.Policy) core.Answer {
	kept := make(http.Header, len(a.Header))
	for name, values := range a.Header {
		kept[http.CanonicalHeaderKey(name)] = values
	}
	kept = m.in.Recorded(kept)
	size := len(a.Body)
	for name, values := range kept {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if a.Partial || int64(size) > route.MaxAnswer {
		maps.DeleteFunc(kept, func(name string, _ []string) bool { return !strings.EqualFold(name, "Location") })
		return core.Answer{Status: a.Status, Header: kept, Partial: true}
	}
	return core.Answer{Status: a.Status, Header: kept, Body: a.Body}
}
