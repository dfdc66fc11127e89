package core

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/auth19/idem/core/store"
)

// operationView is the JSON form of an operation.
type operationView struct {
	ID        ID          `json:"id"`
	State     string      `json:"state"`
	Method    string      `json:"method,omitempty"`
	Route     string      `json:"route,omitempty"`
	Recovery  string      `json:"recovery,omitempty"`
	Fence     int64       `json:"fence,omitempty"`
	Outcome   string      `json:"outcome,omitempty"`
	CreatedAt time.Time   `json:"created_at,omitzero"`
	ExpiresAt *time.Time  `json:"expires_at,omitempty"`
	Answer    *answerView `json:"answer,omitempty"`

	Proposal *proposalView `json:"proposal,omitempty"` // for operators only
}

// proposalView is the JSON form of a proposed settlement that is open.
type proposalView struct {
	Who       string      `json:"who"`
	Reason    string      `json:"reason"`
	CreatedAt time.Time   `json:"created_at"`
	Outcome   string      `json:"outcome,omitempty"`
	Undone    string      `json:"undone,omitempty"`
	Answer    *answerView `json:"answer,omitempty"`
	Digest    string      `json:"digest"`
	Unread    bool        `json:"unread,omitempty"` // outcome, undone and answer cannot be read here
}

func (p *Proposal) view() *proposalView {
	if p == nil {
		return nil
	}
	v := &proposalView{Who: p.Who, Reason: p.Why, CreatedAt: p.At.UTC(), Digest: p.Digest, Unread: p.Unread}
	if !p.Unread {
		v.Outcome, v.Undone = p.Decision.outcome(), p.Decision.Undone
	}
	if p.Decision.Answer != nil {
		v.Answer = viewOfAnswer(*p.Decision.Answer)
	}
	return v
}

// answerView is the JSON form of a recorded answer. A JSON body stands as it is, text as a string, anything else in
// base64.
type answerView struct {
	Status     int             `json:"status"`
	Header     http.Header     `json:"headers,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
	Partial    bool            `json:"partial,omitempty"`
}

func viewOf(rec Record) operationView {
	state := rec.State()
	v := operationView{ID: rec.ID, State: state.String(), Method: rec.Method, Route: rec.Route,
		Recovery: rec.Recovery.String(), Fence: rec.Fence, CreatedAt: rec.CreatedAt.UTC()}
	if !rec.ExpiresAt.IsZero() {
		v.ExpiresAt = new(rec.ExpiresAt.UTC())
	}
	if state == store.Completed || state == store.Expired {
		v.Outcome = rec.OutcomeClass()
	}
	if state == store.Completed {
		v.Answer = viewOfAnswer(rec.Answer)
	}
	return v
}

func viewOfAnswer(answer Answer) *answerView {
	a := &answerView{Status: answer.Status, Header: answer.Header, Partial: answer.Partial || answer.Unread != store.Readable}
	switch body := answer.Body; {
	case len(body) == 0:
	case json.Valid(body):
		a.Body = body
	case utf8.Valid(body):
		a.Body, _ = json.Marshal(string(body)) // valid text: cannot fail
	default:
		a.BodyBase64 = body
	}
	return a
}

func (m *Module) isOperator(p Principal) bool {
	return p.hasOneOf(m.cfg.OperatorRoles) || m.isSupervisor(p)
}

func (m *Module) isSupervisor(p Principal) bool {
	return p.hasOneOf(m.cfg.SupervisorRoles)
}

// operated returns the beginning of the realms whose operations an operator may see and settle (S-5).
func (m *Module) operated(p Principal) []byte {
	if m.isSupervisor(p) {
		return m.service
	}
	realm := m.cfg.Scoping.PrincipalRealm(p)
	return realm[:]
}

// viewer is p as one who asks for an operation.
func (m *Module) viewer(p Principal) store.Viewer {
	v := store.Viewer{Scope: m.cfg.Scoping.PrincipalScope(p)}
	if m.isOperator(p) {
		v.Realm = m.operated(p)
	}
	return v
}

// operates reports whether p is an operator of a record.
func (m *Module) operates(p Principal, rec Record) bool {
	return m.isOperator(p) && rec.Realm.Within(m.operated(p))
}

// ServeOperation answers with the state of the operation with the given id: running, completed with its answer, unknown,
// expired or free (M-7). Operators of its realm may see it (S-5). Its own principal may see it if a repeat would get the
// answer: the principal needs a role of the route, and Policy.Review must allow it (O-3); otherwise the answer is 403. Any
// other caller gets 404. Without a principal the answer is 401. If the store does not answer, it is 503. An attempt that has
// not committed has no record yet: whoever knows the id is told {"id", "state": "running"}, and never 404 (M-8). If an
// operator gets the answer of another principal, the observer gets EventAnswerRead.
func (m *Module) ServeOperation(r *http.Request, p Principal, id string) *Reply {
	if !m.cfg.Scoping.admits(p) {
		return m.refuse(r, m.unauthenticated(r, p, "operations need an authenticated caller"))
	}
	parsed, err := ParseID(id)
	if err != nil {
		return m.refuse(r, NewProblem(CodeNotFound, "there is no such operation"))
	}
	ctx, cancel := context.WithTimeout(r.Context(), m.cfg.ClaimTimeout)
	defer cancel()
	rec, running, err := m.findOwn(ctx, parsed, m.viewer(p))
	if running {
		return jsonReply(operationView{ID: parsed, State: store.Running.String()})
	}
	if errors.Is(err, ErrNotFound) {
		return m.refuse(r, m.notFound(ctx, "there is no such operation"))
	}
	if err != nil {
		return m.refuse(r, m.problemOf(err))
	}
	return m.showOperation(ctx, r, p, rec)
}

// showOperation answers with a record, if the principal may see it (O-3).
func (m *Module) showOperation(ctx context.Context, r *http.Request, p Principal, rec Record) *Reply {
	if !m.operates(p, rec) {
		policy, _ := m.policyOf(rec.Method, rec.Route)
		mayAsk := p.HasAnyRole(policy.Roles...)
		switch {
		case mayAsk && rec.Unread() == store.Unreadable: // Review would not see the answer either
			return m.refuse(r, m.unavailable(store.ErrUnreadable))
		case !mayAsk || !policy.reviewed(ctx, p, &rec):
			return m.refuse(r, NewProblem(CodeForbidden, "the caller may not see this operation (any more)"))
		}
		return jsonReply(viewOf(rec))
	}
	proposal, err := m.openProposal(ctx, rec)
	if err != nil {
		return m.refuse(r, m.problemOf(err))
	}
	view := operatorView(rec)
	view.Proposal = proposal.view()
	if view.Answer != nil && rec.Scope != m.cfg.Scoping.PrincipalScope(p) {
		m.answerRead(ctx, p, rec)
	}
	return jsonReply(view)
}

// halfDone is the state that operators see of a Resume operation that has no attempt at the moment: see [Record.HalfDone].
const halfDone = "half_done"

// operatorView is viewOf, as operators see it.
func operatorView(rec Record) operationView {
	v := viewOf(rec)
	if rec.HalfDone() {
		v.State = halfDone
	}
	return v
}

// ServeOperations lists the unknown or the half-done operations of an operator's realm (S-5, X-10), oldest first, as a
// JSON array. Other callers get 403. The query parameter state is "unknown" (default) or "half_done"; after is the id of
// the last operation of the page before; limit is at most 500 (default 100). Any other value is 400. If the operation of
// after is gone, the answer is 404: begin with the first page again.
func (m *Module) ServeOperations(r *http.Request, p Principal) *Reply {
	query := r.URL.Query()
	switch {
	case !m.cfg.Scoping.admits(p):
		return m.refuse(r, m.unauthenticated(r, p, "operations need an authenticated caller"))
	case !m.isOperator(p):
		return m.refuse(r, NewProblem(CodeForbidden, "only operators may list operations"))
	}
	var problem *Problem
	state := query.Get("state")
	switch state {
	case "", store.Unknown.String(), halfDone:
	default:
		problem = NewProblem(CodeBadRequest, "state: only unknown and half_done operations can be listed")
	}
	var after ID
	if s := query.Get("after"); s != "" {
		var err error
		if after, err = ParseID(s); err != nil {
			problem = NewProblem(CodeBadRequest, "after: want the id of an operation")
		}
	}
	limit := 100
	if s := query.Get("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > 500 {
			problem = NewProblem(CodeBadRequest, "limit: want a number from 1 to 500")
		}
	}
	if problem != nil {
		return m.refuse(r, problem)
	}
	ctx, cancel := context.WithTimeout(r.Context(), m.cfg.ClaimTimeout)
	defer cancel()
	wanted := store.Query{Unknown: state != halfDone, HalfDone: state == halfDone, Within: m.operated(p), Limit: limit}
	records, err := m.listBehind(ctx, after, wanted)
	if err != nil {
		return m.refuse(r, m.problemOf(err))
	}
	views := make([]operationView, 0, len(records))
	for _, rec := range records {
		views = append(views, operatorView(rec))
	}
	return jsonReply(views)
}

// listBehind lists operations behind the one with the id after, or from the first on.
func (m *Module) listBehind(ctx context.Context, after ID, q store.Query) ([]Record, error) {
	if after != (ID{}) {
		last, err := m.cfg.Store.Find(ctx, after, store.Viewer{Realm: q.Within})
		switch {
		case err != nil:
			return nil, err // an empty page would say that there are no more operations
		case !last.Realm.Within(q.Within):
			return nil, ErrNotFound // where the page begins would tell when it was made
		}
		q.After = last.Cursor()
	}
	return m.operations.List(ctx, q)
}

// problemOf turns an error of the store or of Settle into a problem.
func (m *Module) problemOf(err error) *Problem {
	if why, ok := errors.AsType[notSettleable](err); ok {
		return NewProblem(CodeNotSettleable, string(why))
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return NewProblem(CodeNotFound, "there is no such operation")
	case errors.Is(err, store.ErrStepsFinished):
		return NewProblem(CodeNotSettleable, "steps of the operation have finished: it can be settled as applied, or as not "+
			"applied with undone, which says what has undone them")
	case errors.Is(err, errUnderWay):
		return m.withRetry(NewProblem(CodeInFlight, "an attempt of this operation is under way and has not committed yet"))
	case errors.Is(err, ErrStale):
		return NewProblem(CodeNotSettleable, "another attempt, settlement or proposal has come since the fence that the decision "+
			"is about: read the operation again")
	case errors.Is(err, store.ErrNotSettleable):
		return NewProblem(CodeNotSettleable, "only an unknown operation can be settled, once, after its lease and deadline "+
			"have passed")
	}
	return m.unavailable(err)
}

func jsonReply(v any) *Reply {
	body, err := json.Marshal(v)
	if err != nil {
		return NewProblem(CodeMisconfigured, err.Error()).Reply()
	}
	return &Reply{Status: http.StatusOK, Body: append(body, '\n'),
		Header: http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}}
}

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
		return m.refuse(r, m.unauthenticated(r, p, "operations need an authenticated caller"))
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
	viewer := m.viewer(p)
	viewer.All = true // the id is made of the caller and the key: it is the caller's own, a marked one without a scope, too
	rec, running, err := m.findOwn(ctx, id, viewer)
	switch {
	case errors.Is(err, ErrNotFound):
		return m.refuse(r, m.notFound(ctx, "there is no operation with this key; a request with it may still be on its way, "+
			"so send the command again only with the same key"))
	case err != nil:
		return m.refuse(r, m.problemOf(err))
	case running:
		return jsonReply(operationView{ID: id, State: store.Running.String()})
	}
	return m.showOperation(ctx, r, p, rec)
}

// notFound is the problem of a client's operation that is not there.
func (m *Module) notFound(ctx context.Context, detail string) *Problem {
	if nodes, ok := m.cfg.Store.(store.Nodes); ok {
		switch apart, err := nodes.Apart(ctx); {
		case err != nil:
			return m.problemOf(err)
		case apart:
			detail += "; an attempt that runs on another node of the database is not seen before its first commit"
		}
	}
	return NewProblem(CodeNotFound, detail)
}

// findOwn is findOr, as the viewer sees the record.
func (m *Module) findOwn(ctx context.Context, id ID, v store.Viewer) (rec Record, running bool, err error) {
	return findOr(ctx, m.cfg.Store, id, v, m.findLive)
}

// finder finds a record for a viewer: [store.Store].Find, or more than that.
type finder func(ctx context.Context, id ID, v store.Viewer) (Record, error)

// findOr finds a record, or a running attempt whose record is not visible yet. At the end it looks for the record again,
// because the attempt may have ended in between. A record that the viewer may not see costs the same questions as none: the
// time must not tell which keys are in use (S-5). Nor does the lock say then that an attempt is running.
func findOr(ctx context.Context, in store.Store, id ID, v store.Viewer, find finder) (rec Record, running bool, err error) {
	hidden := false
	look := func() (Record, error) {
		rec, err := find(ctx, id, v)
		if err == nil && !v.Sees(rec) {
			hidden = true
			return Record{}, ErrNotFound
		}
		return rec, err
	}
	if rec, err = look(); !isGone(rec, err) {
		return rec, false, err
	}
	attempts, ok := in.(store.Attempts)
	if !ok {
		return rec, false, err
	}
	running, err = attempts.InFlight(ctx, id)
	if err != nil || running && !hidden {
		return Record{}, running, err
	}
	rec, err = look()
	return rec, false, err
}

// findLive is Find for a client: a record that is past its tombstone is not found, even before a sweep.
func (m *Module) findLive(ctx context.Context, id ID, v store.Viewer) (Record, error) {
	rec, err := m.cfg.Store.Find(ctx, id, v)
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
