package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/auth19/idem/core/store"
)

// maxMarked is how many operations a command marks.
const maxMarked = 500

// Mark is for a supervisor, after the database has lost commits: after a restore, or a failover to an asynchronous standby.
// It takes the keys of operations that a provider's list names, by the id that the handlers send to it as metadata (see
// [Operation]). Each becomes unknown: its repeats do not run, and it has to be settled. Nobody knows its principal and its
// command; its first repeat says whose it is and of which route, and no command is compared. No sweep takes it, and
// Config.Reconcile is not asked for it before that repeat. An id that has a record is left alone, and not counted. who and
// why are kept in the history of each. In a Rollback attempt on the same store it commits with the attempt.
//
// Errors: who or why is missing; [ErrClock]. Any other error means that the store did not answer, or is full: repeat it.
func (m *Module) Mark(ctx context.Context, ids []ID, who, why string) (store.Imported, error) {
	if strings.TrimSpace(who) == "" || strings.TrimSpace(why) == "" || !isText(who) || !isText(why) {
		return store.Imported{}, errors.New("idem: Mark: who and why are required, as text without NUL")
	}
	marking := store.Marking{IDs: ids, Window: m.window(), Who: who, Why: why}
	copy(marking.Realm[:], m.service)
	done, err := m.operations.Mark(ctx, marking)
	if err != nil {
		return done, fmt.Errorf("idem: Mark: %w", err)
	}
	m.observe(ctx, Event{Kind: EventMarked, Count: done.Added + done.Replaced, Who: who, Why: why})
	return done, nil
}

// markedView is the answer of ServeMark.
type markedView struct {
	Marked int `json:"marked"`
	Left   int `json:"left"` // that have a record
	// Running are left, too, because an attempt of their key has not ended. It may give the key back: mark them again.
	Running int `json:"running"`
}

// ServeMark is [Module.Mark] as a command of supervisors. The JSON body is {"ids": [...], "reason": ...}, at most 500 ids.
// The answer is {"marked", "left", "running"}: those that have a record are left alone, and so are those whose attempt has
// not ended. Mount it on a guarded route that takes no timed keys, with the recovery Rollback: then the marks commit with
// the answer.
//
// Refusals: 400 for any other body; 401; 403; 503 if the store does not answer, or the clocks are too far apart.
func (m *Module) ServeMark(r *http.Request, p Principal) *Reply {
	body, refused := m.fromSupervisor(r, p, "only supervisors may mark operations: nobody knows whose they are")
	if refused != nil {
		return refused
	}
	refuse := func(problem *Problem) *Reply {
		NotApplied(r.Context()) // it can be corrected, or repeated later, with the same key
		return m.refuse(r, problem)
	}
	var req struct {
		IDs    []ID   `json:"ids"`
		Reason string `json:"reason"`
	}
	err := unmarshalStrict(body, &req)
	if err != nil || len(req.IDs) == 0 || len(req.IDs) > maxMarked || strings.TrimSpace(req.Reason) == "" ||
		len(req.Reason) > maxWhy || !isText(req.Reason) {
		return refuse(NewProblem(CodeBadRequest, fmt.Sprintf("want a JSON object with ids, 1 to %d operation ids of 64 hex "+
			"digits, and reason, for the history, of at most %d bytes", maxMarked, maxWhy)+at(err)))
	}
	done, err := m.Mark(r.Context(), req.IDs, p.Name(), req.Reason)
	if err != nil {
		if errors.Is(err, ErrClock) {
			m.tellClock(r.Context(), err)
		}
		return refuse(m.unavailable(err))
	}
	view := markedView{Marked: done.Added + done.Replaced, Running: done.Running}
	view.Left = len(req.IDs) - view.Marked - view.Running
	return jsonReply(view)
}

// fromSupervisor returns the body of a command of supervisors, or what refuses it: only is what other operators are told.
func (m *Module) fromSupervisor(r *http.Request, p Principal, only string) (body []byte, refused *Reply) {
	switch {
	case !m.cfg.Scoping.admits(p):
		return nil, m.refuse(r, m.unauthenticated(r, p, "this needs an authenticated caller"))
	case !m.isSupervisor(p):
		return nil, m.refuse(r, NewProblem(CodeForbidden, only))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, store.DefaultMaxBody))
	if err != nil {
		return nil, m.refuse(r, m.withRetry(NewProblem(CodeBodyUnreadable, "the request body broke off; nothing was changed")))
	}
	return body, nil
}

// adopt says of a marked operation whose it is. The repeat is answered in any case, and the next one tries it again.
func (m *Module) adopt(ctx context.Context, q *request, c store.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.ClaimTimeout)
	defer cancel()
	if err := m.operations.Adopt(ctx, c); err != nil {
		m.storeFailed(ctx, q.event(EventFailed), err)
	}
}
