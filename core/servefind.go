package core

import (
	"errors"
	"io"
	"net/http"

	"github.com/auth19/idem/core/store"
)

// findRequest is the body of ServeFind.
type findRequest struct {
	Text      string         `json:"text"`
	Call      string         `json:"call"`
	Principal *principalView `json:"principal"`
	Key       string         `json:"key"`
}

// principalView is the JSON form of a principal.
type principalView struct {
	Issuer  string `json:"issuer"`
	Tenant  string `json:"tenant"`
	Client  string `json:"client"`
	Subject string `json:"subject"`
}

func (v principalView) principal() Principal {
	return Principal{Issuer: v.Issuer, Tenant: v.Tenant, Client: v.Client, Subject: v.Subject}
}

// foundView is the answer of ServeFind.
type foundView struct {
	Operations []operationView `json:"operations"`
	As         []string        `json:"as"`    // what the text was taken for
	Whole      bool            `json:"whole"` // all open operations were compared
}

// ServeFind finds operations for an operator, of those that it may look at (S-5), as the pages of package inspect do. The
// JSON body is {"text": ..., "call": ...}, see [Operator.Find], or {"principal": {"issuer", "tenant", "client", "subject"},
// "key": ...}, the client's key and its caller, see [Operator.FindKey]. They are in a body, and so in no address and no log.
//
// It changes nothing and reads no answer: declare its route Exempt. The reply is {"operations": [...], "as": [...],
// "whole": ...}, operations without their answers; none if nothing is found. Refusals: 400 for any other body; 401; 403;
// 500 if the Scoping is not the store's; 503 if the store does not answer.
func (m *Module) ServeFind(r *http.Request, p Principal) *Reply {
	switch {
	case !m.cfg.Scoping.admits(p):
		return m.refuse(r, m.unauthenticated(r, p, "operations need an authenticated caller"))
	case !m.isOperator(p):
		return m.refuse(r, NewProblem(CodeForbidden, "only operators may find operations"))
	}
	o := &Operator{m, p}
	body, err := io.ReadAll(io.LimitReader(r.Body, store.DefaultMaxBody))
	if err != nil {
		return m.refuse(r, m.withRetry(NewProblem(CodeBodyUnreadable, "the request body broke off")))
	}
	var req findRequest
	err = unmarshalStrict(body, &req)
	byKey := req.Principal != nil
	if err != nil || byKey == (req.Text != "") || byKey != (req.Key != "") || byKey && req.Call != "" {
		return m.refuse(r, NewProblem(CodeBadRequest, "want a JSON object with text and, if you like, call; or with principal "+
			"and key"))
	}
	view := foundView{As: []string{"a client's key"}, Whole: true, Operations: []operationView{}}
	var ids []ID
	if byKey {
		if problem := m.checkScoping(r, ""); problem != nil { // otherwise "nothing" could be false
			return m.refuse(r, problem)
		}
		id, running, err := o.FindKey(r.Context(), req.Principal.principal(), req.Key)
		switch {
		case running:
			view.Operations = append(view.Operations, operationView{ID: id, State: store.Running.String()})
		case err == nil:
			ids = append(ids, id)
		case !errors.Is(err, ErrNotFound):
			return m.refuse(r, m.findProblem(err))
		}
	} else {
		found, err := o.Find(r.Context(), req.Text, req.Call)
		if err != nil {
			return m.refuse(r, m.findProblem(err))
		}
		ids, view.As, view.Whole = found.IDs, found.As, found.Whole
	}
	records, err := o.Records(r.Context(), ids)
	if err != nil {
		return m.refuse(r, m.problemOf(err))
	}
	for _, rec := range records {
		rec.Answer = Answer{Status: rec.Answer.Status, Partial: rec.Answer.Partial}
		view.Operations = append(view.Operations, operatorView(rec))
	}
	return jsonReply(view)
}

func (m *Module) findProblem(err error) *Problem {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem
	}
	return m.problemOf(err)
}
