package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Undeclared returns the unsafe routes that the last audit found outside of Config.Owns and not in the table. They are
// sorted, and are lines to paste into the table. Print them at the start: a repeat on such a route runs again. It is
// empty before the first audit, and also without Owns, because the audit then refuses these routes.
func (m *Module) Undeclared() []string {
	if lines := m.undeclared.Load(); lines != nil {
		return slices.Clone(*lines)
	}
	return nil
}

// list keeps the routes for Undeclared, and sends the observer an event for each.
func (m *Module) list(routes []MountedRoute) {
	for _, r := range routes {
		m.observe(context.Background(), Event{Kind: EventUndeclared, Method: r.Method, Route: r.Pattern})
	}
	lines := linesOf(routes)
	m.undeclared.Store(&lines)
}

// linesOf returns routes as lines of the table, each once. New refuses such a line until its TODO is replaced.
func linesOf(routes []MountedRoute) (lines []string) {
	for _, r := range routes {
		line := fmt.Sprintf(`%q: {Exempt: "TODO"},`, r.Method+" "+r.Pattern)
		if !slices.Contains(lines, line) { // two hosts may have one route
			lines = append(lines, line)
		}
	}
	return lines
}

// isOthers reports whether an unsafe route that is not in the table belongs to others: it is outside of Config.Owns, and
// no guard is in front of it. Behind a guard it would be a finding, because every request would get 500.
func (m *Module) isOthers(r MountedRoute) bool {
	return len(m.cfg.Owns) > 0 && m.owner(r) == "" && !isGuarded(r)
}

// owner returns the group of Config.Owns that the route belongs to; "" for none.
func (m *Module) owner(r MountedRoute) string {
	for _, group := range m.cfg.Owns {
		if r.reaches(group) {
			return group
		}
	}
	return ""
}

// isGuarded reports whether a guard of a module is in front of the route. JWTGuard belongs to no module.
func isGuarded(r MountedRoute) bool {
	return slices.ContainsFunc(r.Guards, func(g Guard) bool { return g != GuardJWT })
}

// whyOwned explains why the audit refuses a route that is not in the table, if the reason is not obvious.
func (m *Module) whyOwned(r MountedRoute) string {
	switch group := m.owner(r); {
	case len(m.cfg.Owns) == 0:
		return ""
	case group == "":
		return ". It is outside of Config.Owns, but behind the guards, which refuse it: mount them on fewer routes, or declare it"
	case !strings.HasPrefix(r.Pattern, group):
		return ". It can take requests of the owned group " + group
	}
	return ""
}

// emptyGroups returns a finding for each owned group without an unsafe route: its spelling may be wrong.
func (m *Module) emptyGroups(mounted []MountedRoute) (findings []error) {
	for _, group := range m.cfg.Owns {
		if !slices.ContainsFunc(mounted, func(r MountedRoute) bool { return !isSafe(r.Method) && r.reaches(group) }) {
			findings = append(findings, fmt.Errorf("%s: is in Config.Owns, but the router has no unsafe route there; patterns are "+
				"compared as they are spelled", group))
		}
	}
	return findings
}

// reaches reports whether the route can receive a request below the group: "/v1/*" and "/:version/payments" can, for
// "/v1/payments". If it is uncertain, the result is true.
func (r MountedRoute) reaches(group string) bool {
	below, pattern := segments(group), segments(r.Pattern)
	for i, want := range below {
		if i == len(pattern) {
			return r.Subtree
		}
		if !meet(want, pattern[i]) {
			return false
		}
		if takesRest(pattern[i]) {
			return true
		}
	}
	return true
}

// segments splits a path. It leaves out empty segments, because some middleware cleans paths before the router sees them.
// It also leaves out "{$}", the end of a pattern of ServeMux.
func segments(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "{$}" })
}

// meet reports whether a segment of a request may match both segments of patterns.
func meet(a, b string) bool {
	aHead, aOpen := head(a)
	bHead, bOpen := head(b)
	switch {
	case aOpen && bOpen:
		return strings.HasPrefix(aHead, bHead) || strings.HasPrefix(bHead, aHead)
	case aOpen:
		return strings.HasPrefix(b, aHead)
	case bOpen:
		return strings.HasPrefix(a, bHead)
	}
	return a == b
}

// head returns the fixed beginning of a segment, and whether more may follow: a parameter (":id", "{id}") or a wildcard.
func head(segment string) (text string, open bool) {
	if i := strings.IndexAny(segment, ":*{"); i >= 0 {
		return segment[:i], true
	}
	return segment, false
}

// takesRest reports whether a segment of a pattern matches the whole rest of a path: "*", "*path", "{path...}", and an
// expression that itself has slashes.
func takesRest(segment string) bool {
	return strings.Contains(segment, "*") || strings.Contains(segment, "...") ||
		strings.Contains(segment, "{") && !strings.Contains(segment, "}")
}
