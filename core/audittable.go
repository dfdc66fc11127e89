package core

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/auth19/idem/core/adapter"
)

// Table returns the routes as the last audit found them, for people to read: a line for each unsafe route, and for each safe
// one of Config.Routes. It has what Config.Routes says of the route and, if that needs a key, the functions of others in
// front of its guards:
//
//	POST /v1/payments: Rollback; in front of its guards: gin.LoggerWithConfig.func1, cors.New.func1
//	POST /v1/vouchers: not guarded yet: goes in with release 12
//
// A handler must not be among those functions, because it would run without the guards; the audit cannot tell it from a rate
// limiter. Print them at the start. Table is empty before the first audit.
func (m *Module) Table() []string {
	if lines := m.table.Load(); lines != nil {
		return slices.Clone(*lines)
	}
	return nil
}

// keepTable keeps the routes for Table.
func (m *Module) keepTable(mounted []adapter.MountedRoute) {
	var lines []string
	for _, r := range mounted {
		policy, problem := m.route(r.Method, r.Pattern)
		said := "undeclared"
		switch {
		case policy == nil && problem == nil: // a safe route, of which the table says nothing
			continue
		case policy == nil:
		case policy.Exempt != "":
			said = "exempt: " + policy.Exempt
		case policy.Unguarded != "":
			said = "not guarded yet: " + policy.Unguarded
		case policy.guarded():
			said = policy.Recovery.String()
			if others := inFront(r.Chain); len(others) > 0 {
				said += "; in front of its guards: " + strings.Join(others, ", ")
			}
		default:
			said = "roles only"
		}
		lines = append(lines, r.String()+": "+said)
	}
	m.table.Store(&lines)
}

// inFront returns the names of the functions of others in front of the last guard.
func inFront(chain []adapter.Link) (names []string) {
	for i, l := range chain {
		isGuard := func(l adapter.Link) bool { return l.Guards != nil }
		if l.Guards == nil && slices.ContainsFunc(chain[i:], isGuard) {
			names = append(names, path.Base(l.Name))
		}
	}
	return names
}

// decoder is the source of Echo's Decompress, wherever the compiler has inlined it, and what gin-contrib/gzip has: one
// function for both directions, and its decompression alone.
var decoder = regexp.MustCompile(`github\.com/labstack/echo/v[45][^/]*/middleware/decompress\.go$|` +
	`^github\.com/gin-contrib/gzip\.(\(\*gzipHandler\)\.Handle|DefaultDecompressHandle)`)

// decoders returns the names of the functions behind the key guard that are known to decode the body, or that may do so.
func decoders(chain []adapter.Link) (names []string) {
	behind := false
	for _, l := range chain {
		if behind && (decoder.MatchString(l.Name) || decoder.MatchString(l.File)) {
			names = append(names, path.Base(l.Name))
		}
		behind = behind || slices.Contains(l.Guards, adapter.GuardKey)
	}
	return names
}
