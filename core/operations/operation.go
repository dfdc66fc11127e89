package operations

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// operationView is the JSON form of an operation.
type operationView struct {
	ID        core.ID     `json:"id"`
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
		v.Outcome, v.Undone = p.Decision.Outcome(), p.Decision.Undone
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

func viewOf(rec core.Record) operationView {
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

func viewOfAnswer(answer core.Answer) *answerView {
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

// show is [Show].
func (q *request) show() (*core.Reply, *core.Problem) {
	ctx, cancel := q.brief(q.Context())
	defer cancel()
	return q.shown(ctx, q.id, q.viewer(q.by), "there is no such operation")
}

// own is [Own].
func (q *request) own() (*core.Reply, *core.Problem) {
	key, problem := q.in.KeyOf(q.Request)
	if problem == nil {
		problem = q.in.CheckScoping(q.Request) // otherwise a 404 could be false
	}
	if problem != nil {
		return nil, problem
	}
	ctx, cancel := q.brief(q.Context())
	defer cancel()
	viewer := q.viewer(q.by)
	viewer.All = true // the id is made of the caller and the key: it is the caller's own, a marked one without a scope, too
	return q.shown(ctx, q.cfg.Scoping.RecordID(q.by, key), viewer, "there is no operation with this key; a request with it "+
		"may still be on its way, so send the command again only with the same key")
}

// shown answers with an operation, if the principal may see it (O-3). none is what it is told if there is none.
func (q *request) shown(ctx context.Context, id core.ID, v store.Viewer, none string) (*core.Reply, *core.Problem) {
	rec, running, err := q.findOr(ctx, id, v, q.findLive)
	switch {
	case running:
		return jsonReply(http.StatusOK, operationView{ID: id, State: store.Running.String()})
	case errors.Is(err, core.ErrNotFound):
		return nil, q.notFound(ctx, none)
	case err != nil:
		return nil, q.problemOf(err)
	}
	if !q.operates(q.by, rec) {
		policy, _ := q.in.PolicyOf(rec.Method, rec.Route)
		mayAsk := q.by.HasAnyRole(policy.Roles...)
		switch {
		case mayAsk && rec.Unread() == store.Unreadable: // Review would not see the answer either
			return nil, q.in.Unavailable(store.ErrUnreadable)
		case !mayAsk || !q.in.Reviewed(ctx, policy, q.by, &rec):
			return nil, core.NewProblem(core.CodeForbidden, "the caller may not see this operation (any more)")
		}
		return jsonReply(http.StatusOK, viewOf(rec))
	}
	proposal, err := q.openProposal(ctx, rec)
	if err != nil {
		return nil, q.problemOf(err)
	}
	view := operatorView(rec)
	view.Proposal = proposal.view()
	if view.Answer != nil && rec.Scope != q.cfg.Scoping.PrincipalScope(q.by) {
		q.answerRead(ctx, q.by, rec)
	}
	return jsonReply(http.StatusOK, view)
}

// notFound is the problem of a client's operation that is not there.
func (m *Operations) notFound(ctx context.Context, detail string) *core.Problem {
	if nodes, ok := m.cfg.Store.(store.Nodes); ok {
		switch apart, err := nodes.Apart(ctx); {
		case err != nil:
			return m.problemOf(err)
		case apart:
			detail += "; an attempt that runs on another node of the database is not seen before its first commit"
		}
	}
	return core.NewProblem(core.CodeNotFound, detail)
}

// halfDone is the state that operators see of a Resume operation that has no attempt at the moment: see
// [core.Record.HalfDone].
const halfDone = "half_done"

// operatorView is viewOf, as operators see it.
func operatorView(rec core.Record) operationView {
	v := viewOf(rec)
	if rec.HalfDone() {
		v.State = halfDone
	}
	return v
}

// list is [List].
func (q *request) list() (*core.Reply, *core.Problem) {
	query := q.URL.Query()
	wrong := func(detail string) (*core.Reply, *core.Problem) {
		return nil, core.NewProblem(core.CodeBadRequest, detail)
	}
	var after core.ID
	var err error
	limit := 100
	if s := query.Get("limit"); s != "" {
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > 500 {
			return wrong("limit: want a number from 1 to 500")
		}
	}
	if s := query.Get("after"); s != "" {
		if after, err = core.ParseID(s); err != nil {
			return wrong("after: want the id of an operation")
		}
	}
	state := query.Get("state")
	switch state {
	case "", store.Unknown.String(), halfDone:
	default:
		return wrong("state: only unknown and half_done operations can be listed")
	}
	ctx, cancel := q.brief(q.Context())
	defer cancel()
	wanted := store.Query{Unknown: state != halfDone, HalfDone: state == halfDone, Within: q.operated(q.by), Limit: limit}
	records, err := q.listBehind(ctx, after, wanted)
	if err != nil {
		return nil, q.problemOf(err)
	}
	views := make([]operationView, 0, len(records))
	for _, rec := range records {
		views = append(views, operatorView(rec))
	}
	return jsonReply(http.StatusOK, views)
}

// listBehind lists operations behind the one with the id after, or from the first on.
func (m *Operations) listBehind(ctx context.Context, after core.ID, q store.Query) ([]core.Record, error) {
	if after != (core.ID{}) {
		last, err := m.cfg.Store.Find(ctx, after, store.Viewer{Realm: q.Within})
		switch {
		case err != nil:
			return nil, err // an empty page would say that there are no more operations
		case !last.Realm.Within(q.Within):
			return nil, core.ErrNotFound // where the page begins would tell when it was made
		}
		q.After = last.Cursor()
	}
	return m.store.List(ctx, q)
}
