package core

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/auth19/idem/core/internal/command"
	"github.com/auth19/idem/core/store"
	jsonv2 "github.com/go-json-experiment/json"
)

// Decision settles an unknown operation.
type Decision struct {
	// Applied: the command took effect, and repeats get Answer from now on. Not applied: the key is free, and a repeat runs
	// the command again. Settle as not applied only if the provider refuses or deduplicates the derived key from now on.
	// Otherwise a charge that is only late would be made twice.
	Applied bool
	// Answer is required when Applied: a status of 200 to 499, headers, and a body. Only headers that are recorded of every
	// answer are kept.
	Answer *Answer
	Who    string // who decides; required, kept for good
	Why    string // the reason; required, kept for good
	// Undone says what has undone the finished steps of a Resume operation, a refund for instance. It is required if Applied
	// is false and steps have finished, and kept for good.
	Undone string
	// Fence is the fence of the attempt that the decision is about. If the key has had another attempt or settlement since
	// then, Settle returns ErrStale. With 0 the decision is about the last attempt, whichever it is; that of
	// Config.Reconcile is about the attempt that it was asked about.
	Fence int64
	// By is the principal that decides. It is required for what has to do with a proposal, because two principals (issuer,
	// tenant, subject) carry it out; Who is its name then, and left out.
	By Principal
	// Digest is that of a [Proposal] of another principal, which Settle carries out. Why and Fence are required then; Applied,
	// Answer and Undone are the proposal's, and left out.
	Digest string
}

// Settle ends an unknown operation: as applied with an answer, or as not applied. It is final, and adds a row to
// the history. It is allowed only after lease and deadline have passed. In a Rollback attempt on the same store it
// commits with the attempt. On a route with Policy.TwoToSettle it only carries out what another principal has proposed: see
// Decision.Digest.
//
// Errors: a field of d is missing or contradicts another one; ErrNotFound; store.ErrStepsFinished; store.ErrNotSettleable if
// the operation is not unknown, its lease or deadline has not passed, an attempt is under way, the route takes two, or the
// proposal is none of another principal with this digest; ErrStale if another settlement was quicker, or d.Fence is not the
// last one; ErrClock. Any other error means that the store did not answer.
func (m *Module) Settle(ctx context.Context, id ID, d Decision) (Record, error) {
	return m.settle(ctx, id, d, m.service, false)
}

// errUnderWay: an attempt that has not committed holds the key. Others cannot see its record yet.
var errUnderWay = fmt.Errorf("%w: an attempt is under way that has not committed yet", store.ErrNotSettleable)

// settle settles an operation whose realm begins with within. Any other operation is ErrNotFound. alone: the decision is
// that of Config.Reconcile, which needs no second.
func (m *Module) settle(ctx context.Context, id ID, d Decision, within []byte, alone bool) (Record, error) {
	if d.Digest != "" {
		if err := d.byPrincipal("Settle"); err != nil {
			return Record{}, err
		}
	}
	if err := d.check("Settle"); err != nil {
		return Record{}, err
	}
	storeCtx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
	defer cancel()
	rec, err := m.decided(storeCtx, id, d.Fence, within)
	if err != nil {
		return Record{}, err
	}
	var proposed *Proposal
	switch {
	case d.Digest != "":
		if proposed, err = m.openProposal(storeCtx, rec); err == nil {
			err = proposed.is(d.Digest)
		}
		switch {
		case err != nil:
			return Record{}, err
		case proposed.Unread:
			return Record{}, errUnread
		case proposed.Who == d.Who: // the name of a principal is that of no other
			return Record{}, errOwnProposal
		}
		d.Applied, d.Answer, d.Undone = proposed.Decision.Applied, proposed.Decision.Answer, proposed.Decision.Undone
	case !alone && m.TakesTwo(rec):
		if rec.State() != store.Unknown {
			return Record{}, store.ErrNotSettleable
		}
		return Record{}, errTakesTwo
	}
	if err := m.mayBeUndone(ctx, rec, d); err != nil {
		return Record{}, err
	}
	storeCtx, cancel = context.WithTimeout(ctx, m.cfg.ClaimTimeout) // reading the steps may have taken its time
	defer cancel()
	s := store.Settlement{ID: id, Fence: rec.Fence, Window: m.window(), Who: d.Who, Why: d.Why, Undone: d.Undone}
	if proposed != nil {
		s.Proposal = proposed.token
	}
	if d.Applied {
		kept, _ := m.policyOf(rec.Method, rec.Route)
		s.Answer = &store.Completion{Answer: *m.keptAnswer(d.Answer), Retention: kept.Retention,
			Tombstone: m.tombstone(kept, rec.Timed)}
	}
	settled, err := m.operations.Settle(storeCtx, s)
	if errors.Is(err, ErrClock) {
		m.tellClock(ctx, err)
	}
	if err == nil {
		e := Event{Kind: EventSettled, Operation: id, Method: rec.Method, Route: rec.Route, Recovery: rec.Recovery,
			Fence: settled.Fence, Status: settled.Answer.Status, Who: d.Who, Why: d.Why, Outcome: d.outcome()}
		if d.Applied {
			e.Digest = fmt.Sprintf("%x", sha256.Sum256(d.Answer.Body))
		}
		if proposed != nil {
			e.Proposer = proposed.Who
		}
		m.observe(ctx, e)
	}
	return settled, err
}

// check says what of a decision is missing or too much for what is done with it.
func (d *Decision) check(verb string) error {
	bad := func(text string) error { return errors.New("idem: " + verb + ": " + text) }
	switch {
	case strings.TrimSpace(d.Who) == "":
		return bad("Who is required: who decides")
	case strings.TrimSpace(d.Why) == "":
		return bad("Why is required: the reason, for the history")
	case !isText(d.Who), !isText(d.Why), !isText(d.Undone):
		return bad("Who, Why and Undone are kept as text: valid UTF-8, no NUL")
	case (d.Digest != "" || verb == "Withdraw") && (d.Applied || d.Answer != nil || d.Undone != ""):
		return bad("Applied, Answer and Undone are those of the proposal; leave them out")
	case d.Digest != "":
		return nil
	case verb == "Withdraw":
		return bad("Digest is required: that of the proposal")
	case d.Applied && d.Undone != "":
		return bad("Undone is for an operation that was not applied; leave it out")
	case d.Applied && (d.Answer == nil || d.Answer.Status < 200 || d.Answer.Status > 499):
		return bad("Answer is required when Applied, with a status of 200 to 499")
	case !d.Applied && d.Answer != nil:
		return bad("an operation that was not applied has no Answer; leave it out")
	}
	return nil
}

// byPrincipal gives a decision the name of the principal that decides.
func (d *Decision) byPrincipal(verb string) error {
	switch {
	case !d.By.Valid():
		return errors.New("idem: " + verb + ": By is required: the principal that decides")
	case d.Who != "" && d.Who != d.By.Name():
		return errors.New("idem: " + verb + ": Who is the name of By; leave it out")
	case d.Fence < 1:
		return errors.New("idem: " + verb + ": Fence is required: that of the attempt that the decision is about")
	}
	d.Who = d.By.Name()
	return nil
}

// outcome is the word for what a decision says.
func (d *Decision) outcome() string {
	if d.Applied {
		return "applied"
	}
	return "not_applied"
}

// decided finds the operation that a decision is about, as it is. fence 0: any.
func (m *Module) decided(ctx context.Context, id ID, fence int64, within []byte) (Record, error) {
	rec, running, err := findOr(ctx, m.cfg.Store, id, store.Viewer{Realm: within}, m.cfg.Store.Find)
	switch {
	case running:
		return Record{}, errUnderWay
	case err != nil:
		return Record{}, err
	case fence != 0 && fence != rec.Fence:
		return Record{}, ErrStale
	case rec.HalfDone():
		return Record{}, errHalfDone
	}
	return rec, nil
}

// mayBeUndone returns store.ErrStepsFinished for a decision that says not applied where steps have finished, and not what
// has undone them.
func (m *Module) mayBeUndone(ctx context.Context, rec Record, d Decision) error {
	if d.Applied || strings.TrimSpace(d.Undone) != "" {
		return nil
	}
	return m.nothingFinished(ctx, rec)
}

// keptAnswer is an answer with the headers that are recorded.
func (m *Module) keptAnswer(a *Answer) *Answer {
	if a == nil {
		return nil
	}
	kept := *a
	kept.Header = m.recordedHeader(a.Header)
	return &kept
}

// nothingFinished returns store.ErrStepsFinished if a step of an unknown operation has finished. None can finish any more.
func (m *Module) nothingFinished(ctx context.Context, rec Record) error {
	if rec.Recovery == Resume && rec.State() != store.Unknown {
		return store.ErrNotSettleable
	}
	steps, err := m.stepsOf(ctx, rec)
	if err == nil && slices.ContainsFunc(steps, func(s store.StepRecord) bool { return s.Finished }) {
		err = store.ErrStepsFinished
	}
	return err
}

// stepsOf reads the steps of an operation. They may be many, or large: it may take as long as an attempt.
func (m *Module) stepsOf(ctx context.Context, rec Record) ([]store.StepRecord, error) {
	st, ok := m.cfg.Store.(store.Attempts)
	if rec.Recovery != Resume || !ok {
		return nil, nil
	}
	policy, _ := m.policyOf(rec.Method, rec.Route)
	ctx, cancel := context.WithTimeout(ctx, policy.Deadline)
	defer cancel()
	return st.Steps(ctx, rec.ID)
}

// settleRequest is the body of a settlement.
type settleRequest struct {
	Outcome string          `json:"outcome"` // "applied" or "not_applied"
	Reason  string          `json:"reason"`
	Answer  json.RawMessage `json:"answer"` // a body for status 201, or {"status":..., "headers":..., "body":...}
	Undone  string          `json:"undone"` // what undid finished steps, with "not_applied"
	Fence   int64           `json:"fence"`  // of the attempt that the decision is about; 0: the last one

	Propose  bool   `json:"propose"`  // it is only proposed
	Digest   string `json:"digest"`   // of the proposal that is carried out, instead of outcome, answer and undone
	Withdraw bool   `json:"withdraw"` // or that is withdrawn
}

// ServeSettle settles the operation with the given id as the JSON body says: {"outcome": "applied" or "not_applied",
// "answer": ..., "reason": ..., "undone": ..., "fence": ...}. Send the fence that the operator has seen: then
// a decision about one attempt never settles a later one. The answer is {"status", "headers", "body"}, or any other JSON
// value, which becomes the body of a 201. If "applied" has no answer, a 201 that names the operation is recorded. Only
// operators may settle. Mount it on a guarded route. The reply is the settled operation.
//
// With "propose": true it is only proposed: 202 with the proposal's digest, and the fence is required. {"fence", "digest",
// "reason"} carries out what another operator has proposed; with "withdraw": true it is withdrawn (see Policy.TwoToSettle).
//
// Refusals: 400 for any other body; 401; 403; 404; 409 not_settleable (see Settle); 409 in_flight if an attempt holds the
// key that has not committed; 503 if the store does not answer, or the clocks are too far apart.
func (m *Module) ServeSettle(r *http.Request, p Principal, id string) *Reply {
	switch {
	case !m.cfg.Scoping.admits(p):
		return m.refuse(r, m.unauthenticated(r, p, "settlements need an authenticated caller"))
	case !m.isOperator(p):
		return m.refuse(r, NewProblem(CodeForbidden, "only operators may settle operations"))
	}
	parsed, err := ParseID(id)
	if err != nil {
		return m.refuse(r, NewProblem(CodeNotFound, "there is no such operation"))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, store.DefaultMaxBody))
	if err != nil {
		return m.refuse(r, m.withRetry(NewProblem(CodeBodyUnreadable, "the request body broke off; nothing was settled")))
	}
	refuse := func(problem *Problem) *Reply {
		// The request has changed nothing: it can be corrected, or repeated later, with the same key.
		NotApplied(r.Context())
		m.observe(r.Context(), Event{Kind: EventSettleRefused, Operation: parsed, Who: p.Name(), Code: problem.Code})
		return m.refuse(r, problem)
	}
	var req settleRequest
	decision, problem := m.parseSettlement(body, parsed, &req)
	if problem != nil {
		return refuse(problem)
	}
	decision.By, decision.Who = p, p.Name()
	var reply *Reply
	switch {
	case req.Propose:
		var rec Record
		var proposal Proposal
		rec, proposal, err = m.propose(r.Context(), parsed, decision, m.operated(p))
		view := operatorView(rec)
		view.Proposal = proposal.view()
		reply = jsonReply(view)
		reply.Status = http.StatusAccepted
	case req.Withdraw:
		var rec Record
		rec, err = m.withdraw(r.Context(), parsed, decision, m.operated(p))
		reply = jsonReply(operatorView(rec))
	default:
		var settled Record
		settled, err = m.settle(r.Context(), parsed, decision, m.operated(p), false)
		reply = jsonReply(viewOf(settled))
	}
	if err != nil {
		return refuse(m.problemOf(err))
	}
	return reply
}

// parseSettlement is strict: a settlement is final, and a misspelt member must not cause a wrong one.
func (m *Module) parseSettlement(body []byte, id ID, req *settleRequest) (Decision, *Problem) {
	if err := unmarshalStrict(body, req); err != nil {
		return Decision{}, NewProblem(CodeBadRequest, "want a JSON object with outcome, reason and, if you like, answer, undone, "+
			"fence and propose, or with digest, fence, reason and, if you like, withdraw, each at most once, and no other member"+
			at(err))
	}
	d := Decision{Applied: req.Outcome == "applied", Why: req.Reason, Undone: req.Undone, Fence: req.Fence, Digest: req.Digest}
	hasAnswer := len(req.Answer) > 0 && string(req.Answer) != "null"
	about := req.Digest != "" || req.Withdraw // a proposal that is there
	switch {
	case about && (req.Propose || req.Outcome != "" || hasAnswer || req.Undone != ""):
		return d, NewProblem(CodeBadRequest, "digest: outcome, answer and undone are those of the proposal")
	case about && req.Digest == "":
		return d, NewProblem(CodeBadRequest, "digest: is required, that of the proposal")
	case (about || req.Propose) && d.Fence == 0:
		return d, NewProblem(CodeBadRequest, "fence: is required, that of the operation")
	case !about && !d.Applied && req.Outcome != "not_applied":
		return d, NewProblem(CodeBadRequest, `outcome: want "applied" or "not_applied"`)
	case d.Fence < 0:
		return d, NewProblem(CodeBadRequest, "fence: want that of the operation, or leave it out")
	case strings.TrimSpace(d.Why) == "":
		return d, NewProblem(CodeBadRequest, "reason: is required, for the history")
	case (about || req.Propose) && max(len(d.Why), len(d.Undone)) > maxReason:
		return d, NewProblem(CodeBadRequest, fmt.Sprintf("reason, undone: at most %d bytes", maxReason))
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
	if media, _, _ := mime.ParseMediaType(d.Answer.Header.Get("Content-Type")); !command.IsJSON(media) &&
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

// unmarshalStrict accepts only the members of v, each at most once and in the exact spelling, and only valid UTF-8.
// encoding/json would take the last of two members, and "Subject" for "subject".
func unmarshalStrict(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, jsonv2.RejectUnknownMembers(true))
}

// at tells where in a JSON text an error of unmarshalStrict is.
func at(err error) string {
	if wrong, ok := errors.AsType[*jsonv2.SemanticError](err); ok && wrong.JSONPointer != "" {
		return ": see " + string(wrong.JSONPointer)
	}
	return ""
}

// isText reports whether s can be stored as text: valid UTF-8 without NUL, which PostgreSQL cannot store.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
