package core

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core/store"
)

// eraseRequest is the body of an erasure.
type eraseRequest struct {
	Principal struct {
		Issuer  string `json:"issuer"`
		Tenant  string `json:"tenant"`
		Client  string `json:"client"`
		Subject string `json:"subject"`
	} `json:"principal"`
	Reason string `json:"reason"`
}

// erasedView is the answer to an erasure. It is recorded, so it does not name the principal.
type erasedView struct {
	Records int  `json:"records"`
	Open    []ID `json:"open"`
	// AgainAt is when the Rollback attempts that were under way have ended.
	AgainAt *time.Time `json:"again_at,omitempty"`
}

// ServeErase erases a principal as the JSON body says: {"principal": {"issuer", "tenant", "client", "subject"},
// "reason"}; see [Module.Erase]. tenant and client may be left out if the module's Scoping does not require them. Only
// operators may erase, and only principals of their own issuer and tenant; supervisors any (S-5). The observer is told
// who and why.
//
// The reply is {"records", "open", "again_at"}: how many records were erased, and which operations are open and were
// left. A Rollback attempt that is running cannot be seen, so it is neither erased nor named. If the module has Rollback
// routes, again_at is the time at which these attempts have ended: erase again then, with a new key. Only a COMMIT that
// waits for a standby may take longer.
//
// The route must itself be guarded, with the recovery [Resume], so that a repeat continues an erasure that broke off: about
// every ten seconds what was done becomes durable, and the next attempt goes on behind it. One attempt may take as long as
// Policy.Deadline. With Rollback, one transaction would stay open during the whole erasure.
//
// Refusals: 400 for any other body; 401; 403; 404 for a principal of another realm; 500 if the route has another recovery,
// the module has no observer, the store is no [store.Operations], or the Scoping is not the store's; 503 if the erasure
// broke off: send it again with the same key.
func (m *Module) ServeErase(r *http.Request, p Principal) *Reply {
	_, able := m.cfg.Store.(store.Operations)
	switch {
	case !m.cfg.Scoping.admits(p):
		return m.refuse(r, m.unauthenticated(r, visit{}, p, "erasures need an authenticated caller"))
	case !m.isOperator(p):
		return m.refuse(r, NewProblem(CodeForbidden, "only operators may erase"))
	case isWithoutResume(attemptFrom(r.Context())):
		NotApplied(r.Context()) // so that the key is free when a later release has corrected the route
		return m.refuse(r, NewProblem(CodeMisconfigured, "the route of erasures needs the recovery Resume"))
	case !able || !m.Observed():
		return m.refuse(r, NewProblem(CodeMisconfigured, "to erase, the module needs an observer and a store that is a "+
			"store.Operations"))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, DefaultMaxBody))
	if err != nil {
		return m.refuse(r, NewProblem(CodeBodyUnreadable, "the request body broke off; nothing was erased"))
	}
	order, problem := m.parseErasure(body)
	if problem != nil {
		return m.refuse(r, problem)
	}
	if realm := m.cfg.Scoping.PrincipalRealm(order.Principal); !realm.Within(m.operated(p)) {
		return m.refuse(r, NewProblem(CodeNotFound, "there is no such principal that this operator may erase"))
	}
	order.Who = nameOf(p)
	erased, err := m.eraseIn(r.Context(), order)
	switch {
	case errors.Is(err, ErrScoping):
		return m.refuse(r, NewProblem(CodeMisconfigured, "Config.Scoping is not the one that the store has; nothing was erased"))
	case err != nil:
		problem := m.withRetry(NewProblem(CodeStoreUnavailable,
			"the erasure broke off, and what it has erased stays erased: send it again with the same key"))
		return m.refuse(r, problem)
	}
	view := erasedView{Records: erased.Records, Open: erased.Open}
	if view.Open == nil {
		view.Open = []ID{}
	}
	if longest, found := m.longestRollback(); found {
		again := time.Now().Add(longest + afterDeadline).UTC().Truncate(time.Second)
		view.AgainAt = &again
	}
	return jsonReply(view)
}

// maxWhy is how long the reason of an erasure may be, in bytes: it is a part of two lines in the log.
const maxWhy = 4 << 10

// afterDeadline is how long an attempt may take to end after its deadline.
const afterDeadline = 15 * time.Second

// eraseIn is Erase. In an attempt each stretch is a call, so that no transaction is open while it erases, and the next
// attempt goes on behind the last one. To erase twice does no harm, so a stretch that broke off may always be repeated.
func (m *Module) eraseIn(ctx context.Context, e Erasure) (Erased, error) {
	if attemptFrom(ctx) == nil {
		return m.Erase(ctx, e)
	}
	return m.erase(ctx, e, func(ctx context.Context, n int, work stretchWork) (stretch, error) {
		return Call(ctx, "erase "+strconv.Itoa(n), func(ctx context.Context, _ DerivedKey) (stretch, error) { return work(ctx) },
			Dedup(math.MaxInt64))
	})
}

func isWithoutResume(a *Attempt) bool { return a != nil && a.route.Recovery != Resume }

// longestRollback is the longest deadline of a Rollback route, if there is one.
func (m *Module) longestRollback() (longest time.Duration, found bool) {
	var policies []Policy
	if m.own != nil {
		policies = append(policies, m.own.Policy)
	}
	for _, d := range m.Declared() {
		policies = append(policies, d.Policy)
	}
	for _, policy := range policies {
		if policy.Recovery == Rollback {
			longest, found = max(longest, policy.Deadline), true
		}
	}
	return longest, found
}

// parseErasure is strict: an erasure is final, and a misspelt member must not erase another person.
func (m *Module) parseErasure(body []byte) (Erasure, *Problem) {
	var req eraseRequest
	if err := unmarshalStrict(body, &req); err != nil {
		return Erasure{}, NewProblem(CodeBadRequest,
			"want a JSON object with principal (issuer, subject and, if there are any, tenant and client) and reason")
	}
	e := Erasure{Why: req.Reason, Principal: Principal{Issuer: req.Principal.Issuer, Tenant: req.Principal.Tenant,
		Client: req.Principal.Client, Subject: req.Principal.Subject}}
	switch err := m.cfg.Scoping.lacks(e.Principal); {
	case err != nil:
		return e, NewProblem(CodeBadRequest, "principal: "+strings.TrimPrefix(err.Error(), "idem: "))
	case e.Principal.Client != "" && !m.cfg.Scoping.RequireClient:
		return e, NewProblem(CodeBadRequest, "principal.client: clients do not count in this service; leave it out to erase all")
	case strings.TrimSpace(e.Why) == "", len(e.Why) > maxWhy:
		return e, NewProblem(CodeBadRequest, "reason: is required, for the log; at most 4096 bytes")
	case !isText(e.Why):
		return e, NewProblem(CodeBadRequest, "reason: no NUL")
	}
	return e, nil
}
