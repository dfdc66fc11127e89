package core

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/auth19/idem/core/store"
)

// ServeRetry lets an operator try a half-done Resume operation again now: its pause ends, and Run goes on with it if
// Config.Resume names its route; otherwise the next repeat of its client does. It lifts nothing else: neither
// Policy.ResumeFor, nor the window of a call, nor ErrStepsChanged. The JSON body is {"fence": ..., "reason": ...}, the fence
// that the operator has seen. It adds a row to the history.
//
// Only operators may do it. Mount it on a guarded route. The reply is 202 with the operation. Refusals: 400 for any other
// body; 401; 403; 404; 409 not_settleable if the operation is not half-done, or another attempt has come since that fence;
// 409 in_flight if an attempt holds the key that has not committed; 503 if the store does not answer.
func (m *Module) ServeRetry(r *http.Request, p Principal, id string) *Reply {
	return m.serveIntervention(r, p, id, EventRetried)
}

// ServeGiveUp lets an operator park a half-done Resume operation now: it is unknown, so that it can be settled with proof.
// Its last attempt may still complete it until then. The reply is 200; otherwise it is as ServeRetry.
func (m *Module) ServeGiveUp(r *http.Request, p Principal, id string) *Reply {
	return m.serveIntervention(r, p, id, EventGivenUp)
}

func (m *Module) serveIntervention(r *http.Request, p Principal, id string, kind EventKind) *Reply {
	switch {
	case !m.cfg.Scoping.admits(p):
		return m.refuse(r, m.unauthenticated(r, p, "this needs an authenticated caller"))
	case !m.isOperator(p):
		return m.refuse(r, NewProblem(CodeForbidden, "only operators may change operations"))
	}
	parsed, err := ParseID(id)
	if err != nil {
		return m.refuse(r, NewProblem(CodeNotFound, "there is no such operation"))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, store.DefaultMaxBody))
	if err != nil {
		return m.refuse(r, m.withRetry(NewProblem(CodeBodyUnreadable, "the request body broke off; nothing was changed")))
	}
	i := store.Intervention{ID: parsed, GiveUp: kind == EventGivenUp, Window: m.window(), Who: p.Name()}
	rec, problem := m.intervene(r.Context(), i, body, m.operated(p))
	if problem != nil {
		NotApplied(r.Context()) // it can be corrected, or repeated later, with the same key
		m.observe(r.Context(), Event{Kind: EventSettleRefused, Operation: parsed, Who: i.Who, Code: problem.Code})
		return m.refuse(r, problem)
	}
	reply := jsonReply(operatorView(rec))
	if !i.GiveUp {
		reply.Status = http.StatusAccepted
	}
	return reply
}

// intervene does what the body says with an operation whose realm begins with within.
func (m *Module) intervene(ctx context.Context, i store.Intervention, body []byte, within []byte) (Record, *Problem) {
	var req struct {
		Fence  int64  `json:"fence"`
		Reason string `json:"reason"`
	}
	err := unmarshalStrict(body, &req)
	if err != nil || req.Fence < 1 || strings.TrimSpace(req.Reason) == "" || !isText(req.Reason) {
		return Record{}, NewProblem(CodeBadRequest, "want a JSON object with fence, that of the operation, and reason, for the "+
			"history")
	}
	asked := ctx
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
	defer cancel()
	seen, running, err := findOr(ctx, m.cfg.Store, i.ID, store.Viewer{Realm: within}, m.cfg.Store.Find)
	if running {
		err = errUnderWay
	}
	if err != nil {
		return Record{}, m.problemOf(err)
	}
	policy, _ := m.policyOf(seen.Method, seen.Route)
	i.Fence, i.Why, i.Pause = req.Fence, req.Reason, policy.ResumePause
	rec, err := m.operations.Intervene(ctx, i)
	if errors.Is(err, ErrClock) {
		m.tellClock(asked, err)
	}
	switch {
	case errors.Is(err, store.ErrNotSettleable):
		return Record{}, NewProblem(CodeNotSettleable, "only a half-done operation can be tried again or given up: one of Resume "+
			"that nobody runs, past its lease and deadline")
	case err != nil:
		return Record{}, m.problemOf(err)
	}
	e := Event{Kind: EventRetried, Operation: i.ID, Method: rec.Method, Route: rec.Route, Recovery: rec.Recovery,
		Fence: rec.Fence, Who: i.Who, Why: i.Why}
	if i.GiveUp {
		e.Kind = EventGivenUp
	}
	m.observe(asked, e)
	if a := attemptFrom(asked); a != nil {
		a.wakes = true // when it has committed
	} else {
		m.wakeRun()
	}
	return rec, nil
}

// wakeRun lets Run look for half-done operations at once.
func (m *Module) wakeRun() {
	select {
	case m.wake <- struct{}{}:
	default: // it is awake
	}
}
