package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/auth19/idem/core/adapter"
)

// AuditRoutes compares the routes of a router with the table (D-2). It returns one error with a line for each finding,
// nil if there is none:
//
//   - an unsafe route that is not declared. The error ends with the lines to paste;
//   - a route that needs a key and is not behind JWT guard, roles guard, key guard and interceptor in this order, each
//     once; without a table every unsafe route needs one;
//   - a route that needs a key and has its handler in common with a safe method of its pattern, which would run it without a
//     key (K-8). Who means that declares the safe method Exempt;
//   - a route whose last handler is a guard: what stands in front of it runs without the guard;
//   - a route that needs a key and decodes its body behind the key guard: an honest repeat may be compressed differently;
//   - an exempt or safe route that asks for roles and is not behind JWT guard and roles guard;
//   - a route that cannot be proven to be guarded as it must be;
//   - a declared route that the router does not have.
//
// A route in shadow is no finding, nor is one that is Unguarded. The observer is told of each one (EventShadowed,
// EventUnguarded). Shadowed lists the first, and [Module.Table] has both.
func (m *Module) AuditRoutes(mounted []adapter.MountedRoute) error {
	mounted = slices.SortedFunc(slices.Values(eachMethod(mounted)), func(a, b adapter.MountedRoute) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Method, b.Method))
	})
	var findings []error
	var missing []adapter.MountedRoute
	told := map[any]bool{} // handlers that safe methods run, too
	exists := make(map[routeKey]bool, len(mounted))
	for _, r := range mounted {
		exists[routeKey{r.Method, r.Pattern}] = true
		policy, problem := m.route(r.Method, r.Pattern)
		if problem != nil {
			missing = append(missing, r)
			findings = append(findings, fmt.Errorf("%s: %s", r, problem.Detail))
			continue
		}
		for _, finding := range auditRoute(r, policy) {
			findings = append(findings, fmt.Errorf("%s: %s", r, finding))
		}
		if methods := m.openTo(r, policy, mounted); len(methods) > 0 && !told[shared{r.Pattern, r.Handler}] {
			told[shared{r.Pattern, r.Handler}] = true // once is enough
			registered := ""
			if slices.Contains(methods, http.MethodTrace) { // no app registers a route for TRACE alone
				registered = "is registered for any method, and "
			}
			findings = append(findings, fmt.Errorf("%s: %s%s requests run its handler without a key; register it with its method "+
				"alone, or declare them Exempt with the reason", r, registered, strings.Join(methods, ", ")))
		}
		switch {
		case policy == nil:
		case policy.inShadow():
			m.observe(context.Background(), Event{Kind: EventShadowed, Method: r.Method, Route: r.Pattern,
				Recovery: policy.Recovery, Until: policy.ShadowUntil})
		case policy.Unguarded != "":
			m.observe(context.Background(), Event{Kind: EventUnguarded, Method: r.Method, Route: r.Pattern})
		}
	}
	m.keepTable(mounted)
	for _, d := range m.Declared() {
		if !exists[routeKey{d.Method, d.Pattern}] {
			findings = append(findings, fmt.Errorf("%s %s: is declared, but the router has no such route; patterns are "+
				"compared as they are spelled", d.Method, d.Pattern))
		}
	}
	if len(missing) > 0 {
		findings = append(findings, fmt.Errorf("lines for Config.Routes; replace Exempt by a Recovery or, for now, by Unguarded, "+
			"and TODO by the reason:\n\t%s", strings.Join(linesOf(missing), "\n\t")))
	}
	if len(findings) > 0 {
		return fmt.Errorf("idem: audit: %w", errors.Join(findings...))
	}
	return nil
}

// eachMethod replaces a route of any method by one route for each method.
func eachMethod(mounted []adapter.MountedRoute) (all []adapter.MountedRoute) {
	for _, r := range mounted {
		if r.Method != "" {
			all = append(all, r)
			continue
		}
		if r.Handler == nil {
			r.Handler = &r
		}
		for _, r.Method = range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace} {
			all = append(all, r)
		}
	}
	return all
}

// shared is a handler of a pattern that more than one method may have.
type shared struct {
	pattern string
	handler any
}

// openTo returns the safe methods that run the handler of a guarded route without a key, and are not declared to do so.
func (m *Module) openTo(r adapter.MountedRoute, policy *route, mounted []adapter.MountedRoute) (methods []string) {
	if policy == nil || !policy.guarded() || r.Handler == nil {
		return nil
	}
	for _, other := range mounted {
		same := other.Pattern == r.Pattern && other.Handler == r.Handler
		if !same || !isSafe(other.Method) || slices.Contains(methods, other.Method) { // two hosts may have one
			continue
		}
		if declared, _ := m.route(other.Method, other.Pattern); declared == nil || declared.Exempt == "" {
			methods = append(methods, other.Method)
		}
	}
	return methods
}

// auditRoute returns what is wrong with one route. policy is nil if the table asks nothing of the route.
func auditRoute(r adapter.MountedRoute, policy *route) (findings []string) {
	var need []adapter.Guard
	switch {
	case policy == nil:
		return nil
	case policy.guarded():
		need = []adapter.Guard{adapter.GuardJWT, adapter.GuardRoles, adapter.GuardKey, adapter.GuardInterceptor}
	case len(policy.Roles) > 0:
		need = []adapter.Guard{adapter.GuardJWT, adapter.GuardRoles}
	default:
		return nil
	}
	if r.Unproven != "" {
		return []string{"is unproven: " + r.Unproven}
	}
	if r.GuardIsLast {
		findings = append(findings, "has a guard as its last handler, and what stands in front of it runs without it; put the "+
			"guards in front of the handler")
	}
	if policy.guarded() {
		for _, decoder := range decoders(r.Chain) {
			findings = append(findings, "may decode its body behind the key guard: "+decoder+"; mount that in front of it, or a "+
				"repeat that is compressed anew is refused as another command")
		}
	}
	var has, missing, doubled []adapter.Guard
	for _, g := range r.Guards() {
		switch {
		case !slices.Contains(need, g):
		case !slices.Contains(has, g):
			has = append(has, g)
		case !slices.Contains(doubled, g):
			doubled = append(doubled, g)
		}
	}
	for _, g := range need {
		if !slices.Contains(has, g) {
			missing = append(missing, g)
		}
	}
	if len(missing) > 0 {
		findings = append(findings, "is not behind the "+join(missing)+"; mount "+constructorsOf(missing))
	}
	if !slices.IsSorted(has) {
		findings = append(findings, fmt.Sprintf("has its guards in the wrong order: %s; want %s", join(has), join(need)))
	}
	if len(doubled) > 0 {
		findings = append(findings, "has more than one "+join(doubled)+"; mount each once, on the group or on the route")
	}
	return findings
}

// constructorsOf says what to mount for missing guards, by the names that adapters give them.
func constructorsOf(missing []adapter.Guard) string {
	all := []adapter.Guard{adapter.GuardRoles, adapter.GuardKey, adapter.GuardInterceptor}
	n := len(missing) - len(all)
	together := n >= 0 && slices.Equal(missing[n:], all)
	if together {
		missing = missing[:n]
	}
	var names []string
	for _, g := range missing {
		switch g {
		case adapter.GuardJWT:
			names = append(names, "JWTGuard (or Bridge, behind a JWT middleware of your own)")
		case adapter.GuardRoles:
			names = append(names, "RolesGuard")
		case adapter.GuardKey:
			names = append(names, "KeyGuard")
		case adapter.GuardInterceptor:
			names = append(names, "Interceptor")
		}
	}
	if together {
		names = append(names, "Idempotent")
	}
	return strings.Join(names, ", then ")
}

func join(guards []adapter.Guard) string {
	names := make([]string, len(guards))
	for i, g := range guards {
		names[i] = g.String()
	}
	return strings.Join(names, ", ")
}

// linesOf returns routes as lines of the table, each once. New refuses such a line until its TODO is replaced.
func linesOf(routes []adapter.MountedRoute) (lines []string) {
	for _, r := range routes {
		line := fmt.Sprintf(`%q: {Exempt: "TODO"},`, r.Method+" "+r.Pattern)
		if !slices.Contains(lines, line) { // two hosts may have one route
			lines = append(lines, line)
		}
	}
	return lines
}
