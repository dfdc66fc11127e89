package contracttest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

var operationChecks = []check{
	{"M-7", "its own principal may ask for an operation, nobody else", operationIsItsOwners, nil},
	{"M-7", "an operation that failed in Park is shown as unknown", parkedOperationIsUnknown, isPark},
	{"M-8", "a client that knows only its key finds its own operation", operationByKey, nil},
}

// CONTRACT M-7, S-1
func operationIsItsOwners(p *probe) {
	p.needOperations()
	r := p.valid()
	first := p.apply(r)
	id := p.reused(p.other(r)).Operation

	a := p.operation(id, p.Tokens.Of(owner))
	view := p.requireState(a, id, store.Completed)
	require.Equal(p, first.status, view.Answer.Status, "the status in the operation's answer")
	if json.Valid(first.body) {
		require.JSONEq(p, string(first.body), string(view.Answer.Body), "the body in the operation's answer")
	}

	for what, hidden := range map[string]answer{
		"another principal": p.operation(id, p.Tokens.Of(stranger)),
		"an id of nobody":   p.operation(store.ID{1}.String(), p.Tokens.Of(owner)),
		"no id":             p.operation("no-id", p.Tokens.Of(owner)),
	} {
		require.Equal(p, http.StatusNotFound, hidden.status, "the operation for %s", what)
		require.NotContains(p, string(hidden.body), id, "the operation for %s", what)
	}
	p.requireProblem(p.operation(id, ""), core.CodeUnauthenticated)
}

// CONTRACT M-7, M-4
func parkedOperationIsUnknown(p *probe) {
	p.needOperations()
	p.need(p.Fails != nil, "Route.Fails is missing")
	r := p.command(p.Fails)
	p.send(r)
	id := p.refused(r, core.CodeOutcomeUnknown).Operation
	p.requireState(p.operation(id, p.Tokens.Of(owner)), id, store.Unknown)
}

func (p *probe) needOperations() {
	p.Helper()
	p.need(p.OperationPath != "", "App.OperationPath is missing")
	p.need(p.ProblemCode == nil, "App.ProblemCode tells no operations")
}

func (p *probe) operation(id, token string) answer {
	p.Helper()
	return p.send(request{method: http.MethodGet, path: strings.ReplaceAll(p.OperationPath, "{id}", id), token: token})
}

// CONTRACT M-8
func operationByKey(p *probe) {
	p.need(p.OwnOperationPath != "", "App.OwnOperationPath is missing")
	p.need(p.ProblemCode == nil, "App.ProblemCode tells no operations")
	r := p.valid()
	ask := request{method: http.MethodGet, path: p.OwnOperationPath, token: p.Tokens.Of(owner), keys: r.keys}
	nothing := p.send(ask)
	p.requireProblem(nothing, core.CodeNotFound)
	require.Contains(p, string(nothing.body), "on its way", "404 is no leave to use another key")

	first := p.apply(r)
	id := p.reused(p.other(r)).Operation
	view := p.requireState(p.send(ask), id, store.Completed)
	require.Equal(p, first.status, view.Answer.Status, "the status in the operation's answer")

	ask.token = p.Tokens.Of(stranger)
	p.requireProblem(p.send(ask), core.CodeNotFound)
	ask.token = ""
	p.requireProblem(p.send(ask), core.CodeUnauthenticated)
	ask.token, ask.keys = p.Tokens.Of(owner), nil
	p.requireProblem(p.send(ask), core.CodeKeyMissing)
}

// operationView is what an operation handler answers.
type operationView struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Answer struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	} `json:"answer"`
}

func (p *probe) requireState(a answer, id string, state store.State) operationView {
	p.Helper()
	require.Equal(p, http.StatusOK, a.status, "the operation for its own principal")
	var view operationView
	require.NoError(p, json.Unmarshal(a.body, &view), "the operation for its own principal")
	require.Equal(p, id, view.ID, "the id of the operation")
	require.Equal(p, state.String(), view.State, "the state of the operation")
	return view
}
