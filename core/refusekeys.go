package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/auth19/idem/core/store"
)

// refusedKeysView is the answer of ServeRefuseKeys.
type refusedKeysView struct {
	Before  time.Time `json:"before"`
	Routes  int       `json:"routes"`  // that take timed keys only
	Clients string    `json:"clients"` // what they are told
}

// refusedClients is what clients are told whose keys are refused.
const refusedClients = "409 key_too_old with safe_new_key false, for a key that was made before and has no record"

// timedRoutes counts the routes that take timed keys only.
func (m *Module) timedRoutes() (n int) {
	for _, route := range m.allRoutes() {
		if route.timed() {
			n++
		}
	}
	return n
}

// Refusals is what a supervisor has to know to refuse keys: see [Module.ServeRefuseKeys].
type Refusals struct {
	Routes  int       // that take timed keys only
	Clients string    // what their clients are told
	Latest  time.Time // the latest time before which keys can be refused
	History []store.SettlementRecord
}

// Refusals returns what a supervisor has to know to refuse keys. It is ErrNotFound for any other operator.
func (o *Operator) Refusals(ctx context.Context) (Refusals, error) {
	if !o.Supervises() {
		return Refusals{}, ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, o.module.cfg.ClaimTimeout)
	defer cancel()
	history, err := o.module.operations.History(ctx, store.RefusalsID(o.module.service))
	return Refusals{o.module.timedRoutes(), refusedClients, o.module.latestRefusal(), history}, err
}

// ServeRefuseKeys is [Module.RefuseKeysBefore] as a command of supervisors. The JSON body is {"before": a time of RFC 3339,
// at most 5 minutes ahead, "reason": ...}. The answer says how many routes it concerns, and what their clients will be told.
// The observer gets EventKeysRefused, and the history a row (see [Operator.Refusals]). Mount it on a guarded route that
// takes no timed keys.
//
// Refusals: 400 for any other body; 401; 403; 500 misconfigured if the store is no store.Settings; 503 if the store does not
// answer, or the clocks are too far apart.
func (m *Module) ServeRefuseKeys(r *http.Request, p Principal) *Reply {
	body, refused := m.fromSupervisor(r, p, "only supervisors may refuse keys: it concerns every tenant")
	if refused != nil {
		return refused
	}
	refuse := func(problem *Problem) *Reply {
		NotApplied(r.Context()) // it can be corrected, or repeated later, with the same key
		return m.refuse(r, problem)
	}
	var req struct {
		Before time.Time `json:"before"`
		Reason string    `json:"reason"`
	}
	err := unmarshalStrict(body, &req)
	switch {
	case err != nil || req.Before.IsZero() || strings.TrimSpace(req.Reason) == "" || len(req.Reason) > maxWhy ||
		!isText(req.Reason):
		return refuse(NewProblem(CodeBadRequest, fmt.Sprintf("want a JSON object with before, a time of RFC 3339, and reason, "+
			"of at most %d bytes", maxWhy)))
	case req.Before.After(m.latestRefusal()):
		return refuse(NewProblem(CodeBadRequest, "before: it may be at most 5 minutes ahead; every key would be refused"))
	}
	if _, ok := m.cfg.Store.(store.Settings); !ok {
		return refuse(NewProblem(CodeMisconfigured, "the store judges no timed keys (store.Settings); use gormstore"))
	}
	refusal := store.Refusal{Before: req.Before, Who: p.Name(), Why: req.Reason}
	if err := m.refuseKeys(r.Context(), refusal); err != nil {
		if errors.Is(err, ErrClock) {
			m.tellClock(r.Context(), err)
		}
		return refuse(m.unavailable(err))
	}
	view := refusedKeysView{Before: req.Before.UTC(), Routes: m.timedRoutes(), Clients: refusedClients}
	m.observe(r.Context(), Event{Kind: EventKeysRefused, Until: view.Before, Count: view.Routes, Who: p.Name(),
		Why: req.Reason})
	return jsonReply(view)
}

// operatorsOnly reports whether only operators have the roles of a route: it settles, erases, pushes or refuses.
func (m *Module) operatorsOnly(p Policy) bool {
	for _, role := range p.Roles {
		named := func(r IssuerRole) bool { return r.Role == role }
		if !slices.ContainsFunc(m.cfg.OperatorRoles, named) && !slices.ContainsFunc(m.cfg.SupervisorRoles, named) {
			return false
		}
	}
	return len(p.Roles) > 0
}
