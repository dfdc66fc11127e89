package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Guard is one of the guards that a request has to pass, in the order of the constants (D-2).
type Guard uint8

// The guards, in the order in which a money route needs them.
const (
	GuardJWT         Guard = iota + 1 // who calls: JWTGuard, or Bridge behind a JWT middleware of the app's own
	GuardRoles                        // may the caller do this: RolesGuard
	GuardKey                          // is there one key: KeyGuard
	GuardInterceptor                  // claim and record: Interceptor
)

// String returns the guard's name in findings.
func (g Guard) String() string {
	switch g {
	case GuardJWT:
		return "JWT guard"
	case GuardRoles:
		return "roles guard"
	case GuardKey:
		return "key guard"
	case GuardInterceptor:
		return "interceptor"
	}
	return "unknown guard"
}

// MountedRoute is a route as an adapter found it in its router.
type MountedRoute struct {
	Host    string // for routers that tell hosts apart; "" for the others
	Method  string // "" for any: it counts as a route of each method of RFC 9110 and PATCH
	Pattern string // as the router spells it
	Subtree bool   // the pattern takes every path below it, too, and does not say so by a wildcard
	// Handler tells handlers apart: routes that one registration for any method has made have the same, the address of its
	// code for instance. 0 if it is not known. A route of any method needs none.
	Handler uintptr
	// Guards are those that a request meets on its way to the handler, in that order. Idempotent counts as its three.
	Guards []Guard
	// Unproven says why Guards may be incomplete or wrong, and how to fix it. "" if Guards is certain.
	Unproven string
}

// String returns "METHOD /pattern", or "METHOD host/pattern" if there is a host.
func (r MountedRoute) String() string { return r.Method + " " + r.Host + r.Pattern }

// AuditRoutes compares the routes of a router with the table (D-2). It returns one error with a line for each finding,
// nil if there is none:
//
//   - an unsafe route that is not declared. With Config.Owns, only one that can take requests of an owned group, or that is
//     behind a guard; others are listed (EventUndeclared, Undeclared). The error ends with the lines to paste;
//   - a route that needs a key and is not behind JWT guard, roles guard, key guard and interceptor in this order, each
//     once; without a table every unsafe route needs one;
//   - a route that needs a key and is registered for any method: GET, HEAD, OPTIONS and TRACE pass the guards without a key
//     (K-8), and would run its handler;
//   - an exempt or safe route that asks for roles and is not behind JWT guard and roles guard;
//   - a route that cannot be proven to be guarded as it must be;
//   - a declared route that the router does not have, and an owned group without an unsafe route.
//
// A route in shadow is no finding. The observer is told of each one (EventShadowed), and Shadowed lists them.
func (m *Module) AuditRoutes(mounted []MountedRoute) error {
	mounted = slices.SortedFunc(slices.Values(eachMethod(mounted)), func(a, b MountedRoute) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Method, b.Method))
	})
	var findings []error
	var missing, listed []MountedRoute
	safe := safeMethods(mounted)
	exists := make(map[routeKey]bool, len(mounted))
	for _, r := range mounted {
		exists[routeKey{r.Method, r.Pattern}] = true
		policy, problem := m.route(r.Method, r.Pattern)
		switch {
		case problem == nil:
			for _, finding := range auditRoute(r, policy) {
				findings = append(findings, fmt.Errorf("%s: %s", r, finding))
			}
			if methods := safe[r.registration()]; policy != nil && policy.guarded() && slices.Contains(methods, http.MethodTrace) {
				delete(safe, r.registration()) // once is enough
				findings = append(findings, fmt.Errorf("%s: is registered for any method, and %s requests run its handler "+
					"without a key; register it with its method", r, strings.Join(methods, ", ")))
			}
		case m.isOthers(r):
			listed = append(listed, r)
		default:
			missing = append(missing, r)
			findings = append(findings, fmt.Errorf("%s: %s%s", r, problem.Detail, m.whyOwned(r)))
		}
		if policy != nil && policy.inShadow() {
			m.observe(context.Background(), Event{Kind: EventShadowed, Method: r.Method, Route: r.Pattern,
				Recovery: policy.Recovery, Until: policy.ShadowUntil})
		}
	}
	m.list(listed)
	for _, d := range m.Declared() {
		if !exists[routeKey{d.Method, d.Pattern}] {
			findings = append(findings, fmt.Errorf("%s %s: is declared, but the router has no such route; patterns are "+
				"compared as they are spelled", d.Method, d.Pattern))
		}
	}
	findings = append(findings, m.emptyGroups(mounted)...)
	if len(missing) > 0 {
		findings = append(findings, fmt.Errorf("lines for Config.Routes; replace Exempt by a Recovery, or TODO by the reason why "+
			"a repeat does no harm:\n\t%s", strings.Join(linesOf(missing), "\n\t")))
	}
	if len(findings) > 0 {
		return fmt.Errorf("idem: audit: %w", errors.Join(findings...))
	}
	return nil
}

// eachMethod replaces a route of any method by one route for each method.
func eachMethod(mounted []MountedRoute) (all []MountedRoute) {
	for _, r := range mounted {
		if r.Method != "" {
			all = append(all, r)
			continue
		}
		r.Handler = ^uintptr(0)
		for _, r.Method = range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace} {
			all = append(all, r)
		}
	}
	return all
}

// registration is what the routes of one registration for any method have in common.
type registration struct {
	host, pattern string
	handler       uintptr
}

func (r MountedRoute) registration() registration { return registration{r.Host, r.Pattern, r.Handler} }

// safeMethods returns the safe methods of each handler that is known. With TRACE among them, it is registered for any
// method: no app registers a route for TRACE alone.
func safeMethods(mounted []MountedRoute) map[registration][]string {
	methods := map[registration][]string{}
	for _, r := range mounted {
		if r.Handler != 0 && isSafe(r.Method) {
			methods[r.registration()] = append(methods[r.registration()], r.Method)
		}
	}
	return methods
}

// auditRoute returns what is wrong with one route. policy is nil if the table asks nothing of the route.
func auditRoute(r MountedRoute, policy *route) (findings []string) {
	var need []Guard
	switch {
	case policy == nil:
		return nil
	case policy.guarded():
		need = []Guard{GuardJWT, GuardRoles, GuardKey, GuardInterceptor}
	case len(policy.Roles) > 0:
		need = []Guard{GuardJWT, GuardRoles}
	default:
		return nil
	}
	if r.Unproven != "" {
		return []string{"is unproven: " + r.Unproven}
	}
	var has, missing, doubled []Guard
	for _, g := range r.Guards {
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
func constructorsOf(missing []Guard) string {
	all := []Guard{GuardRoles, GuardKey, GuardInterceptor}
	n := len(missing) - len(all)
	together := n >= 0 && slices.Equal(missing[n:], all)
	if together {
		missing = missing[:n]
	}
	var names []string
	for _, g := range missing {
		switch g {
		case GuardJWT:
			names = append(names, "JWTGuard (or Bridge, behind a JWT middleware of your own)")
		case GuardRoles:
			names = append(names, "RolesGuard")
		case GuardKey:
			names = append(names, "KeyGuard")
		case GuardInterceptor:
			names = append(names, "Interceptor")
		}
	}
	if together {
		names = append(names, "Idempotent")
	}
	return strings.Join(names, ", then ")
}

func join(guards []Guard) string {
	names := make([]string, len(guards))
	for i, g := range guards {
		names[i] = g.String()
	}
	return strings.Join(names, ", ")
}
