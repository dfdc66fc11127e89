package core

import "net/http"

// gate looks at a new command before its claim. It refuses the command, or returns nil. A gate is no claim: two commands
// may pass it at the same moment.
type gate func(m *Module, r *http.Request, q *request) *Problem

// gates are the gates that the policy asks for, in their order. A plain route has none. The age of a key is not among them:
// the claim itself is told how old the key may be, on every route, because a route may have had timed keys before.
func (p Policy) gates() (gates []gate) {
	if p.MaxOpen > 0 {
		gates = append(gates, (*Module).checkOpen)
	}
	if p.RefuseRekeyed {
		gates = append(gates, (*Module).refuseRekeyed)
	}
	return gates
}

// passGates returns the problem of the first gate that refuses the command.
func (m *Module) passGates(r *http.Request, q *request) *Problem {
	for _, pass := range q.route.gates {
		if problem := pass(m, r, q); problem != nil {
			return problem
		}
	}
	return nil
}
