package core

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/auth19/idem/core/store"
)

// Past is one row of an app's own idempotency table, to be imported: see [Module.Import].
type Past struct {
	Principal Principal
	Key       string // as the client sent it, unquoted. On routes of UUIDKey and TimedKey its letter case does not count
	Method    string
	Route     string // the router's pattern, as in the table of routes

	// Answer is the client's answer: a status of 200 to 499, headers, and the body byte for byte. Leave it nil if the row
	// says that the request is still running, did not end, or ended with a 5xx. Such a command may have been applied, so its
	// operation becomes unknown, and must be settled.
	Answer *Answer

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
// [ErrScoping].
func (m *Module) Import(ctx context.Context, rows iter.Seq2[Past, error]) (store.Imported, error) {
	var done store.Imported
	if err := m.CheckScoping(ctx); err != nil {
		return done, fmt.Errorf("idem: Import: %w", err)
	}
	batch := make([]Record, 0, importBatch)
	flush := func() error {
		taken, err := m.operations.Import(ctx, batch)
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
func (m *Module) imported(row Past, now time.Time) (Record, error) {
	route, problem := m.route(row.Method, row.Route)
	switch {
	case problem != nil || route == nil || !route.guarded():
		return Record{}, fmt.Errorf("%q is not a guarded route; give Method and Route as in the table of routes",
			row.Method+" "+row.Route)
	case !m.cfg.Scoping.admits(row.Principal):
		return Record{}, errors.New("Principal: issuer and subject are required, and what Config.Scoping requires")
	case row.Key == "" || len(row.Key) > maxKeyLen || !isVisibleASCII(row.Key):
		return Record{}, errors.New("Key: want 1 to 255 visible ASCII characters; no client could send this one")
	case row.CreatedAt.IsZero() || row.CreatedAt.After(now):
		return Record{}, errors.New("CreatedAt: want a time that has passed")
	case row.Answer != nil && (row.Answer.Status < 200 || row.Answer.Status > 499):
		return Record{}, fmt.Errorf("Answer.Status: %d is not 200 to 499; leave Answer out, and the operation is unknown",
			row.Answer.Status)
	}
	if key := strings.ToLower(row.Key); route.KeyFormat != AnyKey && isUUID(key) {
		row.Key = key // as clients have to send it from now on (K-10, F-4)
	}
	rec := Record{
		Ticket: store.Ticket{ID: m.cfg.Scoping.RecordID(row.Principal, row.Key), Owner: m.newOwner(), Fence: 1},
		Scope:  m.cfg.Scoping.PrincipalScope(row.Principal), Realm: m.cfg.Scoping.PrincipalRealm(row.Principal),
		Method: row.Method, Route: row.Route, Recovery: route.Recovery,
		Hash: store.CommandHash{Version: store.UnknownHash}, Stored: store.Unknown, Attempts: 1,
		CreatedAt: row.CreatedAt, Now: now,
		// An old instance may still be running the command, and the operation must not be settled before that has ended
		//
		LeaseUntil: now.Add(route.Deadline), Deadline: now.Add(route.Deadline),
	}
	rec.Timed = route.timed() && isUUIDv7(row.Key) && !keyMade(row.Key).After(row.CreatedAt.Add(store.MaxKeyAhead))
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
	if longest := row.CreatedAt.Add(max(route.Retention, m.timedFor)); rec.Timed && rec.PurgeAt.Before(longest) {
		rec.PurgeAt = longest // the record has to outlive the key
	}
	if rec.State() == store.Expired {
		rec.Stored, rec.Answer = store.Expired, Answer{Status: rec.Answer.Status}
	}
	return rec, nil
}

// importedAnswer returns the part of an answer that a request would have recorded.
func (m *Module) importedAnswer(a Answer, route *route) Answer {
	kept := make(http.Header, len(a.Header))
	for name, values := range a.Header {
		kept[http.CanonicalHeaderKey(name)] = values
	}
	maps.DeleteFunc(kept, func(name string, _ []string) bool { return !m.replays[name] })
	if a.Partial || int64(len(a.Body)+headerSize(kept)) > route.MaxAnswer {
		maps.DeleteFunc(kept, func(name string, _ []string) bool { return !strings.EqualFold(name, "Location") })
		return Answer{Status: a.Status, Header: kept, Partial: true}
	}
	return Answer{Status: a.Status, Header: kept, Body: a.Body}
}
