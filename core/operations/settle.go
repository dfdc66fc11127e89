package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/command"
	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
	jsonv2 "github.com/go-json-experiment/json"
)

// Settle ends an unknown operation: as applied with an answer, or as not applied. It is final, and adds a row to
// the history. It is allowed only after lease and deadline have passed. In a Rollback attempt on the same store it
// commits with the attempt. On a route with Policy.TwoToSettle one principal proposes it, and another one carries it out:
// see [Operations.Propose].
//
// Errors: a field of d is missing or contradicts another one; ErrNotFound; store.ErrStepsFinished; store.ErrNotSettleable if
// the operation is not unknown, its lease or deadline has not passed, an attempt is under way, or the route takes two;
// ErrStale if another settlement was quicker, or d.Fence is not the last one; ErrClock. Any other error means that the store
// did not answer.
func (m *Operations) Settle(ctx context.Context, id core.ID, d core.Decision) (core.Record, error) {
	return m.settle(ctx, id, d, m.service)
}

// errUnderWay: an attempt that has not committed holds the key. Others cannot see its record yet.
var errUnderWay = fmt.Errorf("%w: an attempt is under way that has not committed yet", store.ErrNotSettleable)

// settle settles an operation whose realm begins with within. Any other operation is ErrNotFound.
func (m *Operations) settle(ctx context.Context, id core.ID, d core.Decision, within []byte) (core.Record, error) {
	if err := d.Check("Settle"); err != nil {
		return core.Record{}, err
	}
	rec, err := m.decided(ctx, id, d.Fence, within)
	switch {
	case err != nil:
		return core.Record{}, err
	case m.TakesTwo(rec) && rec.State() == store.Unknown:
		return core.Record{}, errTakesTwo
	case m.TakesTwo(rec):
		return core.Record{}, store.ErrNotSettleable
	}
	return m.in.Settle(ctx, rec, d, [16]byte{}, "")
}

// decided finds the operation that a decision is about, as it is. fence 0: any.
func (m *Operations) decided(ctx context.Context, id core.ID, fence int64, within []byte) (core.Record, error) {
	ctx, cancel := m.brief(ctx)
	defer cancel()
	rec, running, err := m.findOr(ctx, id, store.Viewer{Realm: within}, m.cfg.Store.Find)
	switch {
	case running:
		return core.Record{}, errUnderWay
	case err != nil:
		return core.Record{}, err
	case fence != 0 && fence != rec.Fence:
		return core.Record{}, core.ErrStale
	case rec.HalfDone():
		return core.Record{}, errHalfDone
	}
	return rec, nil
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

// settle is [Settle].
func (q *request) settle() (*core.Reply, *core.Problem) {
	var req settleRequest
	d, problem := q.parseSettlement(&req)
	if problem != nil {
		return nil, problem
	}
	ctx, within := q.Context(), q.operated(q.by)
	second := Second{By: q.by, Why: d.Why, Fence: d.Fence, Digest: req.Digest}
	var rec core.Record
	var proposal *Proposal
	var err error
	status, see := http.StatusOK, viewOf
	switch {
	case req.Propose:
		status, see = http.StatusAccepted, operatorView
		rec, proposal, err = q.propose(ctx, q.id, q.by, d, within)
	case req.Withdraw:
		see = operatorView
		rec, err = q.withdraw(ctx, q.id, second, within)
	case req.Digest != "":
		rec, err = q.carryOut(ctx, q.id, second, within)
	default:
		d.Who = q.by.Name()
		rec, err = q.Operations.settle(ctx, q.id, d, within)
	}
	if err != nil {
		return nil, q.problemOf(err)
	}
	view := see(rec)
	view.Proposal = proposal.view()
	return jsonReply(status, view)
}

// parseSettlement is strict: a settlement is final, and a misspelt member must not cause a wrong one.
func (q *request) parseSettlement(req *settleRequest) (core.Decision, *core.Problem) {
	if err := unmarshalStrict(q.body, req); err != nil {
		return core.Decision{}, core.NewProblem(core.CodeBadRequest, "want a JSON object with outcome, reason and, if "+
			"you like, answer, undone, fence and propose, or with digest, fence, reason and, if you like, withdraw, each "+
			"at most once, and no other member"+
			at(err))
	}
	d := core.Decision{Applied: req.Outcome == "applied", Why: req.Reason, Undone: req.Undone, Fence: req.Fence}
	hasAnswer := len(req.Answer) > 0 && string(req.Answer) != "null"
	about := req.Digest != "" || req.Withdraw // a proposal that is there
	switch {
	case about && (req.Propose || req.Outcome != "" || hasAnswer || req.Undone != ""):
		return d, core.NewProblem(core.CodeBadRequest, "digest: outcome, answer and undone are those of the proposal")
	case about && req.Digest == "":
		return d, core.NewProblem(core.CodeBadRequest, "digest: is required, that of the proposal")
	case (about || req.Propose) && d.Fence == 0:
		return d, core.NewProblem(core.CodeBadRequest, "fence: is required, that of the operation")
	case !about && !d.Applied && req.Outcome != "not_applied":
		return d, core.NewProblem(core.CodeBadRequest, `outcome: want "applied" or "not_applied"`)
	case d.Fence < 0:
		return d, core.NewProblem(core.CodeBadRequest, "fence: want that of the operation, or leave it out")
	case strings.TrimSpace(d.Why) == "":
		return d, core.NewProblem(core.CodeBadRequest, "reason: is required, for the history")
	case (about || req.Propose) && max(len(d.Why), len(d.Undone)) > maxReason:
		return d, core.NewProblem(core.CodeBadRequest, fmt.Sprintf("reason, undone: at most %d bytes", maxReason))
	case !text.Storable(d.Why), !text.Storable(d.Undone):
		return d, core.NewProblem(core.CodeBadRequest, "reason, undone: the history has no room for NUL")
	case d.Applied && d.Undone != "":
		return d, core.NewProblem(core.CodeBadRequest, "undone: is for an operation that was not applied")
	case !d.Applied && hasAnswer:
		return d, core.NewProblem(core.CodeBadRequest, "answer: an operation that was not applied has none")
	case !d.Applied:
		return d, nil
	case !hasAnswer:
		req.Answer = json.RawMessage(`{"operation":"` + q.id.String() + `","status":"settled"}`)
	}
	d.Answer = &core.Answer{Status: http.StatusCreated, Body: req.Answer,
		Header: http.Header{"Content-Type": {"application/json"}}}
	if !isExplicitAnswer(req.Answer) {
		return d, nil
	}
	var explicit struct {
		Status int               `json:"status"`
		Header map[string]string `json:"headers"`
		Body   json.RawMessage   `json:"body"`
	}
	if json.Unmarshal(req.Answer, &explicit) != nil || explicit.Status < 200 || explicit.Status > 499 {
		return d, core.NewProblem(core.CodeBadRequest, "answer: want a status of 200 to 499, headers with one string "+
			"each, and a body")
	}
	d.Answer.Status, d.Answer.Body = explicit.Status, explicit.Body
	for name, value := range explicit.Header {
		name = http.CanonicalHeaderKey(name)
		if len(q.in.Recorded(http.Header{name: nil})) == 0 || !isFieldValue(value) {
			return d, core.NewProblem(core.CodeBadRequest, "answer.headers: only headers that are recorded may be given, and "+
				"no control characters in them")
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
