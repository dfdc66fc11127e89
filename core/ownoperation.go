package core

import (
	"context"
	"errors"
	"net/http"

	"github.com/auth19/idem/core/store"
)

// ServeOwnOperation answers with the state of the caller's own operation. It finds the operation by the key in the
// request's header. It is for a client that has lost the answer and knows only its key (M-8). It runs, claims and records
// nothing.
//
// The answer is that of ServeOperation. For an attempt that has not committed anything yet it is only {"id", "state":
// "running"}. If there is no operation, the answer is 404 operation_not_found. A request with the key may
// still be on its way then, so do not send the command with another key. Other refusals: 400 if the key is missing or
// invalid, 401 without a principal, 403 as in ServeOperation, 503 if the store does not answer.
func (m *Module) ServeOwnOperation(r *http.Request, p Principal) *Reply {
	if !m.cfg.Scoping.admits(p) {
		return m.refuse(r, m.unauthenticated(r, visit{}, p, "operations need an authenticated caller"))
	}
	key, problem := m.keyOf(r, AnyKey)
	if problem == nil {
		problem = m.checkScoping(r, "") // otherwise a 404 could be false
	}
	if problem != nil {
		return m.refuse(r, problem)
	}
	id := m.cfg.Scoping.RecordID(p, key)
	ctx, cancel := context.WithTimeout(r.Context(), m.cfg.ClaimTimeout)
	defer cancel()
	rec, running, err := m.findOwn(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return m.refuse(r, NewProblem(CodeNotFound, "there is no operation with this key; a request with it may still be on "+
			"its way, so send the command again only with the same key"))
	case err != nil:
		return m.refuse(r, m.problemOf(err))
	case running:
		return jsonReply(operationView{ID: id, State: store.Running.String()})
	}
	return m.showOperation(ctx, r, p, rec)
}

// findOwn finds a record, or a running attempt whose record is not visible yet. At the end it looks for the record again,
// because the attempt may have ended in between.
func (m *Module) findOwn(ctx context.Context, id ID) (rec Record, running bool, err error) {
	if rec, err = m.findLive(ctx, id); !isGone(rec, err) {
		return rec, false, err
	}
	store, ok := m.cfg.Store.(interface {
		InFlight(ctx context.Context, id ID) (bool, error)
	})
	if !ok {
		return rec, false, err
	}
	if running, err = store.InFlight(ctx, id); running || err != nil {
		return Record{}, running, err
	}
	rec, err = m.findLive(ctx, id)
	return rec, false, err
}

// findLive is Find for a client: a record that is past its tombstone is not found, even before a sweep.
func (m *Module) findLive(ctx context.Context, id ID) (Record, error) {
	rec, err := m.cfg.Store.Find(ctx, id)
	rec = m.judged(ctx, rec)
	if err == nil && rec.State() == store.Free && rec.Stored != store.Free {
		err = ErrNotFound
	}
	return rec, err
}

// isGone reports whether a key can be claimed. An attempt that has not committed, and cannot be seen, may then hold it.
func isGone(rec Record, err error) bool {
	return errors.Is(err, ErrNotFound) || err == nil && rec.State() == store.Free
}
