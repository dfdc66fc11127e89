package core

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Decision settles an unknown operation.
type Decision struct {
	// Applied: the command took effect, and Answer is what repeats get from now on. Not applied: the key is free, and
	// a repeat runs the command again. Not applied must rest on the provider refusing, or deduplicating, the derived
	// key from now on: a charge that is only late would otherwise be made twice.
	Applied bool
	// Answer is required when Applied: a status of 200 to 499, headers, of which those are kept that are recorded of
	// any answer, and a body.
	Answer *Answer
	Who    string // who decides; required, kept for good
	Why    string // the reason; required, kept for good
	// Undone says what has undone the finished steps of a Resume operation that was not applied, a refund for instance. It
	// is required where there are such steps, and kept for good.
	Undone string
}

// Reconciler finds out what became of an unknown operation, by asking the provider for the derived key for instance.
// It returns nil where it cannot tell yet. It must not change anything itself: all instances ask, one settles. Its context
// ends with the deadline of the operation's route. A panic is an error, and one that hangs holds up no other operation.
type Reconciler func(ctx context.Context, operation Record) (*Decision, error)

// Settle ends an unknown operation for good: as applied with an answer, or as not applied. It is final, allowed
// only after lease and deadline have passed, and leaves a row of history. In a Rollback attempt on the same store it
// commits with the attempt.
//
// Errors: ErrNotFound; ErrStepsFinished; ErrNotSettleable where the operation is not unknown (any more) or not yet past
// lease and deadline; ErrStale where another settlement was quicker; any other error means that the store did not answer.
func (m *Module) Settle(ctx context.Context, id ID, d Decision) (Record, error) {
	return m.settle(ctx, id, d, m.cfg.Scoping.service())
}

// settle settles an operation whose realm begins with within. Any other does not exist.
func (m *Module) settle(ctx context.Context, id ID, d Decision, within []byte) (Record, error) {
	s := Settlement{ID: id, Window: m.window(), Who: d.Who, Why: d.Why, Undone: d.Undone}
	switch {
	case strings.TrimSpace(d.Who) == "":
		return Record{}, errors.New("idem: Settle: Who is required: who decides")
	case strings.TrimSpace(d.Why) == "":
		return Record{}, errors.New("idem: Settle: Why is required: the reason, for the history")
	case !isText(d.Who), !isText(d.Why), !isText(d.Undone):
		return Record{}, errors.New("idem: Settle: Who, Why and Undone are kept as text: valid UTF-8, no NUL")
	case d.Applied && d.Undone != "":
		return Record{}, errors.New("idem: Settle: Undone is for an operation that was not applied; leave it out")
	case d.Applied && (d.Answer == nil || d.Answer.Status < 200 || d.Answer.Status > 499):
		return Record{}, errors.New("idem: Settle: Answer is required when Applied, with a status of 200 to 499")
	case !d.Applied && d.Answer != nil:
		return Record{}, errors.New("idem: Settle: an operation that was not applied has no Answer; leave it out")
	}
	storeCtx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
	defer cancel()
	rec, err := m.cfg.Store.Find(storeCtx, id)
	if err == nil && !rec.Realm.within(within) {
		err = ErrNotFound
	}
	if err != nil {
		return Record{}, err
	}
	s.Fence = rec.Fence
	if !d.Applied && strings.TrimSpace(d.Undone) == "" {
		if err := m.nothingFinished(storeCtx, rec); err != nil {
			return Record{}, err
		}
	}
	if d.Applied {
		answer := *d.Answer
		answer.Header = m.recordedHeader(answer.Header)
		kept := m.policyOf(rec)
		s.Answer = &Completion{Answer: answer, Retention: kept.Retention, Tombstone: kept.Tombstone}
	}
	settled, err := m.cfg.Store.Settle(storeCtx, s)
	if errors.Is(err, ErrClock) {
		m.tellClock(ctx, err)
	}
	if err == nil {
		m.observe(ctx, Event{Kind: EventSettled, Operation: id, Method: rec.Method, Route: rec.Route,
			Recovery: rec.Recovery, Fence: settled.Fence, Status: settled.Answer.Status})
	}
	return settled, err
}

// nothingFinished returns ErrStepsFinished where a step of an unknown operation has finished: none does any more.
func (m *Module) nothingFinished(ctx context.Context, rec Record) error {
	store, ok := m.cfg.Store.(Stepper)
	switch {
	case rec.Recovery != Resume || !ok:
		return nil
	case rec.State() != Unknown:
		return ErrNotSettleable
	}
	steps, err := store.Steps(ctx, rec.ID)
	if err == nil && slices.ContainsFunc(steps, func(s StepRecord) bool { return s.Finished }) {
		err = ErrStepsFinished
	}
	return err
}

// policyOf returns the policy that a record was made under, or the defaults for a route that is gone by now.
func (m *Module) policyOf(rec Record) Policy {
	if r, _ := m.route(rec.Method, rec.Route); r != nil {
		return r.Policy
	}
	return Policy{}.withDefaults(m.cfg.Policy)
}

// reconcile asks Config.Reconcile about every unknown operation.
func (m *Module) reconcile(ctx context.Context) {
	if m.cfg.Reconcile == nil {
		return
	}
	var after ID
	for ctx.Err() == nil {
		records, err := m.cfg.Store.List(ctx, m.cfg.Scoping.service(), after, m.cfg.SweepBatch)
		if err != nil {
			m.failed(ctx, err)
			return
		}
		for _, rec := range records {
			after = rec.ID
			if rec.Now.Before(rec.Deadline) {
				continue // its handler may still be at work
			}
			err := m.ask(ctx, rec)
			// Another instance having settled it is how this is meant to be.
			if err != nil && !errors.Is(err, ErrStale) && !errors.Is(err, ErrNotSettleable) && !errors.Is(err, ErrNotFound) &&
				!errors.Is(err, ErrClock) {
				m.failed(ctx, fmt.Errorf("reconcile %s: %w", rec.ID, err))
			}
		}
		if len(records) < m.cfg.SweepBatch {
			return
		}
	}
}

// ask asks Config.Reconcile about one operation, within the deadline of its route.
func (m *Module) ask(ctx context.Context, rec Record) error {
	deadline := m.policyOf(rec).Deadline
	return m.reconciling.run(rec.ID, deadline+confirmFor, func() error {
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		decision, err := m.cfg.Reconcile(ctx, rec)
		if err == nil && decision != nil {
			_, err = m.Settle(ctx, rec.ID, *decision)
		}
		return err
	})
}

// operationView is the JSON form of an operation.
type operationView struct {
	ID        ID          `json:"id"`
	State     string      `json:"state"`
	Method    string      `json:"method,omitempty"`
	Route     string      `json:"route,omitempty"`
	Recovery  string      `json:"recovery"`
	Fence     int64       `json:"fence,omitempty"`
	Outcome   string      `json:"outcome,omitempty"`
	CreatedAt time.Time   `json:"created_at,omitzero"`
	ExpiresAt *time.Time  `json:"expires_at,omitempty"`
	Answer    *answerView `json:"answer,omitempty"`
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
	if state == Completed || state == Expired {
		v.Outcome = rec.OutcomeClass()
	}
	if state == Completed {
		a := &answerView{Status: rec.Answer.Status, Header: rec.Answer.Header, Partial: rec.Answer.Partial}
		switch body := rec.Answer.Body; {
		case len(body) == 0:
		case json.Valid(body):
			a.Body = body
		case utf8.Valid(body):
			a.Body, _ = json.Marshal(string(body)) // valid text: cannot fail
		default:
			a.BodyBase64 = body
		}
		v.Answer = a
	}
	return v
}

func (m *Module) isOperator(p Principal) bool {
	return len(m.cfg.OperatorRoles) > 0 && p.HasAnyRole(m.cfg.OperatorRoles...) || m.isSupervisor(p)
}

func (m *Module) isSupervisor(p Principal) bool {
	return len(m.cfg.SupervisorRoles) > 0 && p.HasAnyRole(m.cfg.SupervisorRoles...)
}

// operated returns what the realms begin with whose operations an operator may see and settle (S-5).
func (m *Module) operated(p Principal) []byte {
	if m.isSupervisor(p) {
		return m.cfg.Scoping.service()
	}
	realm := m.cfg.Scoping.realm(p)
	return realm[:]
}

// operates reports whether p is an operator of a record.
func (m *Module) operates(p Principal, rec Record) bool {
	return m.isOperator(p) && rec.Realm.within(m.operated(p))
}

// ServeOperation answers what is known of the operation with the given id: running, completed with its answer,
// unknown or expired (M-7). Operators of its realm get it (S-5), and its own principal as long as a repeat would: with a
// role of its route, and with the consent of Policy.Review (O-3), else 403. To others it does not exist: 404. 401 without
// a principal, 503 where the store does not answer.
func (m *Module) ServeOperation(r *http.Request, p Principal, id string) *Reply {
	if !m.cfg.Scoping.admits(p) {
		return m.refuse(r, m.unauthenticated(r, "", p, "operations need an authenticated caller"))
	}
	parsed, err := ParseID(id)
	if err != nil {
		return m.refuse(r, NewProblem(CodeNotFound, "there is no such operation"))
	}
	ctx, cancel := context.WithTimeout(r.Context(), m.cfg.ClaimTimeout)
	defer cancel()
	rec, err := m.findLive(ctx, parsed)
	if err == nil && rec.Scope != m.cfg.Scoping.scope(p) && !m.operates(p, rec) {
		err = ErrNotFound
	}
	if err != nil {
		return m.refuse(r, m.problemOf(err))
	}
	return m.showOperation(ctx, r, p, rec)
}

// showOperation answers what is known of a record, to those who may know it (O-3).
func (m *Module) showOperation(ctx context.Context, r *http.Request, p Principal, rec Record) *Reply {
	if policy := m.policyOf(rec); !m.operates(p, rec) && (!p.HasAnyRole(policy.Roles...) || !policy.reviewed(ctx, p, rec)) {
		return m.refuse(r, NewProblem(CodeForbidden, "the caller may not see this operation (any more)"))
	}
	if m.operates(p, rec) {
		return jsonReply(operatorView(rec))
	}
	return jsonReply(viewOf(rec))
}

// halfDone is how operators see a Resume operation that waits for somebody to go on with it: see [Record.HalfDone].
const halfDone = "half_done"

// halfDone lists such operations; a store without steps has none.
func (m *Module) halfDone(ctx context.Context, within []byte, after ID, limit int) ([]Record, error) {
	store, ok := m.cfg.Store.(Stepper)
	if !ok {
		return nil, nil
	}
	return store.HalfDone(ctx, within, after, limit)
}

// operatorView is viewOf, as operators see it.
func operatorView(rec Record) operationView {
	v := viewOf(rec)
	if rec.HalfDone() {
		v.State = halfDone
	}
	return v
}

// ServeOperations lists the unknown operations of their realm to operators (S-5), or the half-done ones, oldest
// first, as a JSON array; others get 403. The query parameter state must be "unknown", "half_done" or absent, which is
// "unknown"; after is the id of the last operation of the page before, limit at most 500 (default 100); else 400. 404
// where the operation of after is gone: begin again.
func (m *Module) ServeOperations(r *http.Request, p Principal) *Reply {
	query := r.URL.Query()
	switch {
	case !m.cfg.Scoping.admits(p):
		return m.refuse(r, m.unauthenticated(r, "", p, "operations need an authenticated caller"))
	case !m.isOperator(p):
		return m.refuse(r, NewProblem(CodeForbidden, "only operators may list operations"))
	}
	var problem *Problem
	list := m.cfg.Store.List
	switch query.Get("state") {
	case "", Unknown.String():
	case halfDone:
		list = m.halfDone
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
	records, err := list(ctx, m.operated(p), after, limit)
	if err != nil {
		return m.refuse(r, m.problemOf(err))
	}
	views := make([]operationView, 0, len(records))
	for _, rec := range records {
		views = append(views, operatorView(rec))
	}
	return jsonReply(views)
}

// settleRequest is the body of a settlement.
type settleRequest struct {
	Outcome string          `json:"outcome"` // "applied" or "not_applied"
	Reason  string          `json:"reason"`
	Answer  json.RawMessage `json:"answer"` // a body for status 201, or {"status":..., "headers":..., "body":...}
	Undone  string          `json:"undone"` // what undid finished steps, with "not_applied"
}

// ServeSettle settles the operation with the given id as the JSON body says: {"outcome": "applied" or "not_applied",
// "answer": ..., "reason": ..., "undone": ...}. The answer is {"status", "headers", "body"}, or any other JSON
// value, which then is the body of a 201; without one, "applied" is recorded as a 201 that names the operation. Only
// operators may; the route is itself a guarded one. The reply is the settled operation; 400 for a body of another form,
// 401, 403, 404, 409 not_settleable (see Settle), 503 where the store does not answer.
func (m *Module) ServeSettle(r *http.Request, p Principal, id string) *Reply {
	switch {
	case !m.cfg.Scoping.admits(p):
		return m.refuse(r, m.unauthenticated(r, "", p, "settlements need an authenticated caller"))
	case !m.isOperator(p):
		return m.refuse(r, NewProblem(CodeForbidden, "only operators may settle operations"))
	}
	parsed, err := ParseID(id)
	if err != nil {
		return m.refuse(r, NewProblem(CodeNotFound, "there is no such operation"))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, DefaultMaxBody))
	if err != nil {
		return m.refuse(r, NewProblem(CodeBodyUnreadable, "the request body broke off; nothing was settled"))
	}
	decision, problem := m.parseSettlement(body, parsed)
	if problem != nil {
		return m.refuse(r, problem)
	}
	decision.Who = p.Issuer + " " + p.Subject
	if p.Tenant != "" {
		decision.Who = p.Issuer + " " + p.Tenant + " " + p.Subject
	}
	if !isText(decision.Who) { // a token may hold what the history cannot
		decision.Who = strconv.QuoteToASCII(decision.Who)
	}
	settled, err := m.settle(r.Context(), parsed, decision, m.operated(p))
	if err != nil {
		// The command itself has done nothing: what is too early now may be repeated later, with the same key.
		NotApplied(r.Context())
		return m.refuse(r, m.problemOf(err))
	}
	return jsonReply(viewOf(settled))
}

// parseSettlement is strict: a settlement is final, and a misspelt member is no reason for the wrong one.
func (m *Module) parseSettlement(body []byte, id ID) (Decision, *Problem) {
	var req settleRequest
	if err := unmarshalStrict(body, &req); err != nil || !utf8.Valid(body) { // the decoder would mend the text
		return Decision{}, NewProblem(CodeBadRequest, "want a JSON object with outcome, reason and, if you like, answer")
	}
	d := Decision{Applied: req.Outcome == "applied", Why: req.Reason, Undone: req.Undone}
	hasAnswer := len(req.Answer) > 0 && string(req.Answer) != "null"
	switch {
	case !d.Applied && req.Outcome != "not_applied":
		return d, NewProblem(CodeBadRequest, `outcome: want "applied" or "not_applied"`)
	case strings.TrimSpace(d.Why) == "":
		return d, NewProblem(CodeBadRequest, "reason: is required, for the history")
	case !isText(d.Why), !isText(d.Undone):
		return d, NewProblem(CodeBadRequest, "reason, undone: the history has no room for NUL")
	case d.Applied && d.Undone != "":
		return d, NewProblem(CodeBadRequest, "undone: is for an operation that was not applied")
	case !d.Applied && hasAnswer:
		return d, NewProblem(CodeBadRequest, "answer: an operation that was not applied has none")
	case !d.Applied:
		return d, nil
	case !hasAnswer:
		req.Answer = json.RawMessage(`{"operation":"` + id.String() + `","status":"settled"}`)
	}
	d.Answer = &Answer{Status: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: req.Answer}
	if !isExplicitAnswer(req.Answer) {
		return d, nil
	}
	var explicit struct {
		Status int               `json:"status"`
		Header map[string]string `json:"headers"`
		Body   json.RawMessage   `json:"body"`
	}
	if json.Unmarshal(req.Answer, &explicit) != nil || explicit.Status < 200 || explicit.Status > 499 {
		return d, NewProblem(CodeBadRequest, "answer: want a status of 200 to 499, headers with one string each, and a body")
	}
	d.Answer.Status, d.Answer.Body = explicit.Status, explicit.Body
	for name, value := range explicit.Header {
		name = http.CanonicalHeaderKey(name)
		if !m.replays[name] || !isFieldValue(value) {
			return d, NewProblem(CodeBadRequest, "answer.headers: only headers that are recorded may be given, and no control "+
				"characters in them")
		}
		d.Answer.Header.Set(name, value)
	}
	var text string
	if media, _, _ := mime.ParseMediaType(d.Answer.Header.Get("Content-Type")); !isJSON(media) &&
		json.Unmarshal(explicit.Body, &text) == nil {
		d.Answer.Body = []byte(text)
	}
	return d, nil
}

// isExplicitAnswer tells {"status": a number, "headers": ..., "body": ...} from a JSON value that is the body itself.
func isExplicitAnswer(answer []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(answer, &members) != nil {
		return false
	}
	for name := range members {
		if name != "status" && name != "headers" && name != "body" {
			return false
		}
	}
	status := string(members["status"])
	return status != "" && (status[0] == '-' || '0' <= status[0] && status[0] <= '9')
}

// isFieldValue reports whether a header can have this value (RFC 9110, section 5.5).
func isFieldValue(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// unmarshalStrict takes nothing but the members of v.
func unmarshalStrict(data []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("idem: more than one JSON value")
	}
	return nil
}

// problemOf turns an error of the store or of Settle into a problem.
func (m *Module) problemOf(err error) *Problem {
	switch {
	case errors.Is(err, ErrNotFound):
		return NewProblem(CodeNotFound, "there is no such operation")
	case errors.Is(err, ErrStepsFinished):
		return NewProblem(CodeNotSettleable, "steps of the operation have finished: it can be settled as applied, or as not "+
			"applied with undone, which says what has undone them")
	case errors.Is(err, ErrNotSettleable), errors.Is(err, ErrStale):
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
