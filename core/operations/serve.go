package operations

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// Handler names what a route of the API does: see [Operations.Serve].
type Handler uint8

// The handlers. Each says for whom it is, what its JSON body is, and what it answers. All of them answer 401 to a caller
// without a principal, 403 to one who may not do it, 400 to a body of another form, and 503 if the store does not answer.
// Settle, Retry, GiveUp, Erase, RefuseKeys and Mark change something: mount them on a guarded route (POST). A request that
// these refuse has changed nothing, and can be corrected with the same key.
const (
	_ Handler = iota
	// Show answers with the state of the operation of the route's id: running, completed with its answer, unknown, expired or
	// free (M-7). Operators of its realm may see it (S-5). Its own principal may see it if a repeat would get the answer: the
	// principal needs a role of the route, and Policy.Review must allow it (O-3); otherwise the answer is 403. Any other caller
	// gets 404. An attempt that has not committed has no record yet: whoever knows the id is told {"id", "state": "running"},
	// and never 404 (M-8). If an operator gets the answer of another principal, the observer gets EventAnswerRead.
	Show
	// Own is Show for the caller's own operation with the key in the request's header. It is for a client that has lost the
	// answer and knows only its key (M-8). It runs, claims and records nothing. If there is no operation, the answer is 404
	// operation_not_found. A request with the key may still be on its way then, so do not send the command with another key.
	// It is 400 if the key is missing or invalid.
	Own
	// List lists the unknown or the half-done operations of an operator's realm (S-5, X-10), oldest first, as a JSON array.
	// The query parameter state is "unknown" (default) or "half_done"; after is the id of the last operation of the page
	// before; limit is at most 500 (default 100). If the operation of after is gone, the answer is 404: begin with the first
	// page again.
	List
	// Find finds operations for an operator, of those that it may look at (S-5), as the pages of package inspect do. The body
	// is {"text": ..., "call": ...}, see [Operator.Find], or {"principal": {"issuer", "tenant", "client", "subject"}, "key":
	// ...}, the client's key and its caller, see [Operator.FindKey]. They are in a body, and so in no address and no log. It
	// changes nothing and reads no answer: declare its route (POST) Exempt. The reply is {"operations": [...], "as": [...],
	// "whole": ...}, operations without their answers; none if nothing is found. It is 500 if the Scoping is not the store's.
	Find
	// Settle settles the operation of the route's id for an operator, as the body says: {"outcome": "applied" or
	// "not_applied", "answer": ..., "reason": ..., "undone": ..., "fence": ...}. Send the fence that the operator
	// has seen: then a decision about one attempt never settles a later one. The answer is {"status", "headers", "body"}, or
	// any other JSON value, which becomes the body of a 201. If "applied" has no answer, a 201 that names the operation is
	// recorded. The reply is the settled operation.
	//
	// With "propose": true it is only proposed: 202 with the proposal's digest, and the fence is required. {"fence", "digest",
	// "reason"} carries out what another operator has proposed; with "withdraw": true it is withdrawn (see Policy.TwoToSettle).
	//
	// It refuses with 404; 409 not_settleable (see [Operations.Settle]); 409 in_flight if an attempt holds the key that has
	// not committed; 503 if the clocks are too far apart.
	Settle
	// Retry lets an operator try a half-done Resume operation again now: its pause ends, and Run goes on with it if
	// Config.Resume names its route; otherwise the next repeat of its client does. It lifts nothing else: neither
	// Policy.ResumeFor, nor the window of a call, nor ErrStepsChanged. The body is {"fence": ..., "reason": ...}, the fence
	// that the operator has seen. It adds a row to the history. The reply is 202 with the operation. It refuses with 404; 409
	// not_settleable if the operation is not half-done, or another attempt has come since that fence; 409 in_flight.
	Retry
	// GiveUp lets an operator park a half-done Resume operation now: it is unknown, so that it can be settled with proof. Its
	// last attempt may still complete it until then. The reply is 200; otherwise it is as Retry.
	GiveUp
	// Erase erases a principal as the body says: {"principal": {"issuer", "tenant", "client", "subject"}, "reason"}; see
	// [Operations.Erase]. tenant and client may be left out if the module's Scoping does not require them. Only operators may
	// erase, and only principals of their own issuer and tenant; supervisors any (S-5). The observer is told who and why.
	//
	// The reply is {"records", "open", "again_at"}: how many records were erased, and which operations are open and were
	// left. A Rollback attempt that is running cannot be seen, so it is neither erased nor named. If the module has Rollback
	// routes, again_at is the time at which these attempts have ended: erase again then, with a new key. Only a COMMIT that
	// waits for a standby may take longer.
	//
	// The recovery of its route is [core.Resume], so that a repeat continues an erasure that broke off: about every ten seconds
	// what was done becomes durable, and the next attempt goes on behind it. One attempt may take as long as Policy.Deadline.
	// With Rollback, one transaction would stay open during the whole erasure.
	//
	// It refuses with 404 for a principal of another realm; 500 if the route has another recovery, the module has no observer,
	// or the Scoping is not the store's; 503 if the erasure broke off: send it again with the same key.
	Erase
	// RefuseKeys is [Operations.RefuseKeysBefore] for supervisors. The body is {"before": a time of RFC 3339, at most 5 minutes
	// ahead, "reason": ...}. The answer says how many routes it concerns, and what their clients will be told. The observer
	// gets EventKeysRefused, and the history a row (see [Operator.Refusals]). Its route takes no timed keys. It is 500
	// misconfigured if the store is no store.Settings; 503 if the clocks are too far apart.
	RefuseKeys
	// Mark is [Operations.Mark] for supervisors. The body is {"ids": [...], "reason": ...}, at most 500 ids. The answer is
	// {"marked", "left", "running"}: those that have a record are left alone, and so are those whose attempt has not ended. Its
	// route takes no timed keys, and its recovery is Rollback: then the marks commit with the answer. It is 503 if the clocks
	// are too far apart.
	Mark
)

// handlers are the handlers, as [Operations.Serve] needs them.
var handlers = map[Handler]struct {
	serve  func(q *request) (*core.Reply, *core.Problem)
	needs  string // an authenticated caller
	only   string // what others are told; "": everybody may ask
	staff  func(m *Operations, p core.Principal) bool
	hasID  bool   // it is about the operation of the route's id
	lost   string // what a caller is told whose body broke off; "": it has none
	undone bool   // a request that is refused has changed nothing: it can be corrected, or repeated later, with the same key
}{
	Show: {serve: (*request).show, needs: "operations need", hasID: true},
	Own:  {serve: (*request).own, needs: "operations need"},
	List: {serve: (*request).list, needs: "operations need", only: "only operators may list operations",
		staff: (*Operations).isOperator},
	Find: {serve: (*request).find, needs: "operations need", only: "only operators may find operations",
		staff: (*Operations).isOperator, lost: "the request body broke off"},
	Settle: {serve: (*request).settle, needs: "settlements need", only: "only operators may settle operations",
		staff: (*Operations).isOperator, hasID: true, lost: "the request body broke off; nothing was settled", undone: true},
	Retry: {serve: (*request).retry, needs: "this needs", only: "only operators may change operations",
		staff: (*Operations).isOperator, hasID: true, lost: nothingChanged, undone: true},
	GiveUp: {serve: (*request).giveUp, needs: "this needs", only: "only operators may change operations",
		staff: (*Operations).isOperator, hasID: true, lost: nothingChanged, undone: true},
	Erase: {serve: (*request).erase, needs: "erasures need", only: "only operators may erase",
		staff: (*Operations).isOperator, lost: "the request body broke off; nothing was erased"},
	RefuseKeys: {serve: (*request).refuseKeys, needs: "this needs",
		only:  "only supervisors may refuse keys: it concerns every tenant",
		staff: (*Operations).isSupervisor, lost: nothingChanged, undone: true},
	Mark: {serve: (*request).mark, needs: "this needs",
		only:  "only supervisors may mark operations: nobody knows whose they are",
		staff: (*Operations).isSupervisor, lost: nothingChanged, undone: true},
}

const nothingChanged = "the request body broke off; nothing was changed"

// request is one request to a handler, of somebody who may send it.
type request struct {
	*Operations
	*http.Request
	by   core.Principal
	id   core.ID // of the route, if the handler has one
	body []byte
}

// Serve answers a request of p to a handler. id is the route's parameter "id", where there is one.
func (m *Operations) Serve(what Handler, r *http.Request, p core.Principal, id string) *core.Reply {
	h, known := handlers[what]
	q := &request{Operations: m, Request: r, by: p}
	var err error
	switch {
	case !known:
		return m.in.Refuse(r, core.NewProblem(core.CodeMisconfigured, "the route has no handler of package operations"))
	case m.in.Lacks(p) != nil:
		return m.in.Refuse(r, m.in.Unauthenticated(r, p, h.needs+" an authenticated caller"))
	case h.staff != nil && !h.staff(m, p):
		return m.in.Refuse(r, core.NewProblem(core.CodeForbidden, h.only))
	}
	if h.hasID {
		if q.id, err = core.ParseID(id); err != nil {
			return m.in.Refuse(r, core.NewProblem(core.CodeNotFound, "there is no such operation"))
		}
	}
	if h.lost != "" {
		if q.body, err = io.ReadAll(io.LimitReader(r.Body, store.DefaultMaxBody)); err != nil {
			return m.in.Refuse(r, m.withRetry(core.NewProblem(core.CodeBodyUnreadable, h.lost)))
		}
	}
	reply, problem := h.serve(q)
	if problem == nil {
		return reply
	}
	if h.undone {
		core.NotApplied(r.Context())
		if h.hasID {
			m.in.Observe(r.Context(), core.Event{Kind: core.EventSettleRefused, Operation: q.id, Who: p.Name(), Code: problem.Code})
		}
	}
	return m.in.Refuse(r, problem)
}

// withRetry adds the module's Retry-After to a problem that a repeat may solve.
func (m *Operations) withRetry(p *core.Problem) *core.Problem {
	p.RetryAfter = m.cfg.RetryAfter
	return p
}

// problemOf turns an error of the store or of Settle into a problem.
func (m *Operations) problemOf(err error) *core.Problem {
	if problem, ok := errors.AsType[*core.Problem](err); ok {
		return problem
	}
	if why, ok := errors.AsType[notSettleable](err); ok {
		return core.NewProblem(core.CodeNotSettleable, string(why))
	}
	switch {
	case errors.Is(err, core.ErrNotFound):
		return core.NewProblem(core.CodeNotFound, "there is no such operation")
	case errors.Is(err, store.ErrStepsFinished):
		return core.NewProblem(core.CodeNotSettleable, "steps of the operation have finished: it can be settled as applied, or "+
			"as not applied with undone, which says what has undone them")
	case errors.Is(err, errUnderWay):
		return m.withRetry(core.NewProblem(core.CodeInFlight, "an attempt of this operation is under way and has not committed "+
			"yet"))
	case errors.Is(err, core.ErrStale):
		return core.NewProblem(core.CodeNotSettleable, "another attempt, settlement or proposal has come since the fence that "+
			"the decision is about: read the operation again")
	case errors.Is(err, store.ErrNotSettleable):
		return core.NewProblem(core.CodeNotSettleable, "only an unknown operation can be settled, once, after its lease and "+
			"deadline have passed")
	}
	return m.in.Unavailable(err)
}

func jsonReply(status int, v any) (*core.Reply, *core.Problem) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, core.NewProblem(core.CodeMisconfigured, err.Error())
	}
	return &core.Reply{Status: status, Body: append(body, '\n'),
		Header: http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}}, nil
}
