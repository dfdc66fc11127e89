package core

import (
	"context"
	"errors"
	"net/http"

	"github.com/auth19/idem/core/store"
)

// gate looks at a command before its claim. It returns the reply that refuses it, or nil. A gate is no claim: two commands
// may pass it at the same moment.
type gate func(m *Module, r *http.Request, q *request) *Reply

// gatesOf returns the gates of a route, in their order. A plain route has only those of a store that knows more than the
// table of routes: the Scoping of its records, and how old keys were when their route left TimedKey.
func (m *Module) gatesOf(p Policy) (gates []gate) {
	if _, ok := m.cfg.Store.(store.Settings); ok {
		gates = append(gates, (*Module).sameScoping, refusing((*Module).takeAge, false))
	}
	if p.MaxOpen > 0 {
		gates = append(gates, refusing((*Module).checkOpen, true))
	}
	if p.RefuseRekeyed {
		gates = append(gates, refusing((*Module).refuseRekeyed, true))
	}
	return gates
}

// refusing makes a gate of a check that finds a problem. One of new commands leaves a key alone that is refused by its time:
// the claim answers from its record, or refuses it.
func refusing(check func(*Module, *http.Request, *request) *Problem, ofNew bool) gate {
	return func(m *Module, r *http.Request, q *request) *Reply {
		if ofNew && m.keyTime(q).Valid == never {
			return nil
		}
		if problem := check(m, r, q); problem != nil {
			return m.refuseRepeat(r, q, problem)
		}
		return nil
	}
}

// hasRecord reports whether a key has a record. If so, the claim answers from it.
func (m *Module) hasRecord(ctx context.Context, id ID) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
	defer cancel()
	rec, err := m.cfg.Store.Find(ctx, id, store.Viewer{All: true})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && m.judged(ctx, rec).State() != store.Free, err
}
