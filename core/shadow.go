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

// inShadow reports whether the route is in shadow at the moment. A chain of guards asks once: see visit.
func (r *route) inShadow() bool { return !r.ShadowUntil.IsZero() && time.Now().Before(r.ShadowUntil) }

// InShadow reports whether ctx belongs to a request in shadow (see Policy.ShadowUntil), which runs outside any attempt.
//
// A handler that must work both in shadow and later asks InShadow: in shadow it opens its own transaction, because there
// is no attempt that has one. If a context belongs neither to a shadow nor to an attempt, gormstore.Tx panics, so that a
// lost context is noticed.
func InShadow(ctx context.Context) bool {
	adm, _ := ctx.Value(admissionKey{}).(*admission)
	return adm != nil && adm.shadow
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
func (v *visit) admitShadow(a *admission, r *http.Request, kept [][]byte) *http.Request {
	m := v.m
	if v.passedGuard(r) {
		m.wouldRefuse(r, a.pattern, ID{}, secondGuard().Code)
		return r
	}
	a.shadow = true
	problem := m.takeKey(a, r)
	read, bodyProblem := v.takeCommand(a, r, kept)
	a.unhashed = bodyProblem != nil
	if problem = cmp.Or(problem, bodyProblem); problem != nil {
		m.wouldRefuse(r, a.pattern, a.id, problem.Code)
	}
	admitted := r.WithContext(a)
	if len(read) > 0 { // first what was read, then the rest of the body or its error
		admitted.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(read), r.Body), r.Body}
	}
	return admitted
}

// watch is Begin for a request in shadow: nothing is claimed, and the handler runs outside any attempt. adm is nil if the
// request did not pass the key guard.
func (m *Module) watch(r *http.Request, pattern string, adm *admission, p Principal) {
	if adm == nil || adm.watched || !adm.principal.same(p) {
		m.wouldRefuse(r, pattern, ID{}, CodeMisconfigured)
		return
	}
	adm.watched = true
	if adm.unhashed {
		return
	}
	earlier, err := m.logCommand(r.Context(), adm, min(shadowPatience, m.cfg.ClaimTimeout))
	if err != nil {
		m.storeFailed(r.Context(), Event{Operation: adm.id, Method: r.Method, Route: pattern}, fmt.Errorf("shadow: %w", err))
		return
	}
	m.tellShadow(r, adm, earlier)
}

// tellShadow sends the event that says what would have happened to a command.
func (m *Module) tellShadow(r *http.Request, adm *admission, earlier store.EarlierCommands) {
	if earlier.Key {
		same, err := adm.sends(earlier.First)
		switch {
		case err != nil:
			m.wouldRefuse(r, adm.pattern, adm.id, CodeStoreUnavailable) // H-4
		case same:
			m.observe(r.Context(), adm.event(EventWouldReplay))
		default:
			m.wouldRefuse(r, adm.pattern, adm.id, CodeKeyReused)
		}
		return
	}
	if code := m.keyRefusedInShadow(adm); code != "" {
		m.wouldRefuse(r, adm.pattern, adm.id, code)
		return
	}
	if adm.id != (ID{}) {
		m.observe(r.Context(), adm.event(EventWouldClaim))
	}
	if earlier.Rekeyed {
		m.suspect(r, adm, earlier)
	}
}

func (m *Module) wouldRefuse(r *http.Request, pattern string, id ID, code Code) {
	m.observe(r.Context(), Event{Kind: EventWouldRefuse, Operation: id, Method: r.Method, Route: pattern, Code: code})
}
