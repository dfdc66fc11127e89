package core

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// maxShadow is how far ahead ShadowUntil may be: 90 days. Without an end, a shadow would stay for ever.
const maxShadow = 90 * 24 * time.Hour

// shadowPatience is how long a request in shadow waits for the store.
const shadowPatience = 250 * time.Millisecond

// inShadow reports whether the route is in shadow at the moment. A chain of guards asks once: see request.
func (r *route) inShadow() bool { return !r.ShadowUntil.IsZero() && time.Now().Before(r.ShadowUntil) }

// InShadow reports whether ctx belongs to a request in shadow (see Policy.ShadowUntil), which runs outside any attempt.
//
// A handler that must work both in shadow and later asks InShadow: in shadow it opens its own transaction, because there
// is no attempt that has one. If a context belongs neither to a shadow nor to an attempt, gormstore.Tx panics, so that a
// lost context is noticed.
func InShadow(ctx context.Context) bool {
	q := requestFrom(ctx)
	return q != nil && q.shadow
}

// Shadowed lists the routes that are in shadow at the moment, sorted as by Declared. Print them at the start. If there is
// no table, and the module's own policy is in shadow, it is one route with "*" as its method and pattern.
func (m *Module) Shadowed() []DeclaredRoute {
	if m.own != nil {
		if !m.own.inShadow() {
			return nil
		}
		return []DeclaredRoute{{Method: "*", Pattern: "*", Policy: m.own.Policy}}
	}
	return slices.DeleteFunc(m.Declared(), func(d DeclaredRoute) bool { return !time.Now().Before(d.Policy.ShadowUntil) })
}

// checkShadow reports to bad what is wrong with ShadowUntil in a filled policy.
func (p Policy) checkShadow(st Store, bad func(format string, args ...any)) {
	if p.ShadowUntil.IsZero() {
		return
	}
	until := p.ShadowUntil.Format(time.RFC3339)
	switch left := time.Until(p.ShadowUntil); {
	case p.Recovery == 0:
		bad("ShadowUntil: only the key of a guarded route can be watched; leave it out")
	case left <= 0:
		bad("ShadowUntil: %s has passed and the key is enforced; take ShadowUntil out, or choose a new end", until)
	case left > maxShadow:
		bad("ShadowUntil: %s is more than %d days ahead", until, maxShadow/(24*time.Hour))
	}
	if _, ok := st.(store.CommandLog); !ok {
		bad("ShadowUntil: needs a store that remembers commands (store.CommandLog), and %T does not; use gormstore", st)
	}
}

// admitShadow is Admit for a request in shadow. If something is wrong with the key or the body, only the observer is
// told.
func (q *request) admitShadow(r *http.Request, copies [][]byte) *http.Request {
	m := q.m
	if q.passedGuard(r) {
		m.wouldRefuse(r, q.pattern, ID{}, secondGuard().Code)
		return r
	}
	problem := q.takeKey(r)
	read, bodyProblem := q.takeCommand(r, copies)
	q.unhashed = bodyProblem != nil
	if problem = cmp.Or(problem, bodyProblem); problem != nil {
		m.wouldRefuse(r, q.pattern, q.id, problem.Code)
	}
	admitted := r.WithContext(q)
	if len(read) > 0 { // first what was read, then the rest of the body or its error
		admitted.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(read), r.Body), r.Body}
	}
	return admitted
}

// watch is Begin for a request in shadow: nothing is claimed, and the handler runs outside any attempt. q is nil if the
// request did not pass the key guard.
func (m *Module) watch(r *http.Request, pattern string, q *request, p Principal) {
	if q == nil || q.watched || !q.principal.same(p) {
		m.wouldRefuse(r, pattern, ID{}, CodeMisconfigured)
		return
	}
	q.watched = true
	if q.unhashed {
		return
	}
	earlier, err := m.logCommand(r.Context(), q, min(shadowPatience, m.cfg.ClaimTimeout))
	if err != nil {
		m.storeFailed(r.Context(), Event{Operation: q.id, Method: r.Method, Route: pattern}, fmt.Errorf("shadow: %w", err))
		return
	}
	m.tellShadow(r, q, earlier)
}

// tellShadow sends the event that says what would have happened to a command.
func (m *Module) tellShadow(r *http.Request, q *request, earlier store.EarlierCommands) {
	if earlier.Key {
		same, err := q.sends(earlier.First)
		switch {
		case err != nil:
			m.wouldRefuse(r, q.pattern, q.id, CodeStoreUnavailable) // H-4
		case same:
			m.observe(r.Context(), q.event(EventWouldReplay))
		default:
			m.wouldRefuse(r, q.pattern, q.id, CodeKeyReused)
		}
		return
	}
	if code := m.keyRefusedInShadow(q); code != "" {
		m.wouldRefuse(r, q.pattern, q.id, code)
		return
	}
	if q.id != (ID{}) {
		m.observe(r.Context(), q.event(EventWouldClaim))
	}
	if earlier.Rekeyed {
		m.suspect(r, q, earlier)
	}
}

func (m *Module) wouldRefuse(r *http.Request, pattern string, id ID, code Code) {
	m.observe(r.Context(), Event{Kind: EventWouldRefuse, Operation: id, Method: r.Method, Route: pattern, Code: code})
}

// keyRefusedInShadow is the code with which a key of a route in shadow would be refused because of its time; "" for none.
// It uses only this process's clock and policy.
func (m *Module) keyRefusedInShadow(q *request) Code {
	if !q.route.timed() || q.keyMade.IsZero() {
		return ""
	}
	q.keyAge = q.route.KeyAge
	if m.keyTime(q).Valid != never {
		return ""
	}
	return m.keyRefused(q, q.judgedAt).Code
}
