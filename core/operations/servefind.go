package operations

import (
	"errors"
	"net/http"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// findRequest is the body of [Find].
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

func (v principalView) principal() core.Principal {
	return core.Principal{Issuer: v.Issuer, Tenant: v.Tenant, Client: v.Client, Subject: v.Subject}
}

// foundView is the answer of [Find].
type foundView struct {
	Operations []operationView `json:"operations"`
	As         []string        `json:"as"`    // what the text was taken for
	Whole      bool            `json:"whole"` // all open operations were compared
}

// find is [Find].
func (q *request) find() (*core.Reply, *core.Problem) {
	o := &Operator{q.Operations, q.by}
	var req findRequest
	err := unmarshalStrict(q.body, &req)
	byKey := req.Principal != nil
	if err != nil || byKey == (req.Text != "") || byKey != (req.Key != "") || byKey && req.Call != "" {
		return nil, core.NewProblem(core.CodeBadRequest, "want a JSON object with text and, if you like, call; or with "+
			"principal and key")
	}
	view := foundView{As: []string{"a client's key"}, Whole: true, Operations: []operationView{}}
	var ids []core.ID
	if byKey {
		if problem := q.in.CheckScoping(q.Request); problem != nil { // otherwise "nothing" could be false
			return nil, problem
		}
		id, running, err := o.FindKey(q.Context(), req.Principal.principal(), req.Key)
		switch {
		case running:
			view.Operations = append(view.Operations, operationView{ID: id, State: store.Running.String()})
		case err == nil:
			ids = append(ids, id)
		case !errors.Is(err, core.ErrNotFound):
			return nil, q.problemOf(err)
		}
	} else {
		found, err := o.Find(q.Context(), req.Text, req.Call)
		if err != nil {
			return nil, q.problemOf(err)
		}
		ids, view.As, view.Whole = found.IDs, found.As, found.Whole
	}
	records, err := o.Records(q.Context(), ids)
	if err != nil {
		return nil, q.problemOf(err)
	}
	for _, rec := range records {
		rec.Answer = core.Answer{Status: rec.Answer.Status, Partial: rec.Answer.Partial}
		view.Operations = append(view.Operations, operatorView(rec))
	}
	return jsonReply(http.StatusOK, view)
}
