package main

import (
	"go/constant"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/auth19/idem/core"
)

// table is what the core.Routes of the app say: "Park", "Exempt" or something else, by "POST /v1/payments". What is not
// guarded yet counts as exempt.
type table map[string]string

func (p *program) table() table {
	said := table{}
	m := mounts{program: p}
	for _, f := range p.functions {
		eachInstruction(f, func(i ssa.Instruction) {
			entry, ok := i.(*ssa.MapUpdate)
			if !ok || !isNamed(entry.Map.Type(), corePath, "Routes") {
				return
			}
			pattern := m.text(entry.Key, nil)
			if method, _, _ := strings.Cut(pattern, " "); slices.Contains(unsafeMethods, method) {
				said[pattern] = p.policy(entry.Value)
			}
		})
	}
	return said
}

// policy returns "Park" or "Exempt" if a policy says so.
func (p *program) policy(v ssa.Value) string {
	for _, from := range p.sources(v, nil) {
		literal, ok := from.value.(*ssa.Alloc)
		if !ok {
			continue
		}
		for _, field := range fieldsOf(literal) {
			name := fieldOf(literal.Type(), field.Field).Name()
			for _, value := range storedAt(field) {
				if name == "Exempt" || name == "Unguarded" {
					return "Exempt"
				} else if said, ok := value.(*ssa.Const); ok && name == "Recovery" {
					if n, _ := constant.Uint64Val(said.Value); n == uint64(core.Park) {
						return "Park"
					}
				}
			}
		}
	}
	return ""
}

func fieldsOf(literal *ssa.Alloc) (fields []*ssa.FieldAddr) {
	for _, ref := range *literal.Referrers() {
		if field, ok := ref.(*ssa.FieldAddr); ok {
			fields = append(fields, field)
		}
	}
	return fields
}

// storedAt returns what a function stores at an address of its own.
func storedAt(addr ssa.Value) (values []ssa.Value) {
	for _, ref := range *addr.Referrers() {
		if store, ok := ref.(*ssa.Store); ok && store.Addr == addr {
			values = append(values, store.Val)
		}
	}
	return values
}

// of returns the patterns of the table that a route may be: a part of it that is not known matches any text.
func (t table) of(r route) (patterns []string) {
	for pattern := range t {
		if matches(r.String(), pattern) {
			patterns = append(patterns, pattern)
		}
	}
	if len(patterns) == 0 {
		return []string{r.String()}
	}
	return patterns
}

// writesForItself reports whether the policy of a route says that its handler writes without the attempt's transaction.
func (t table) writesForItself(r route) bool {
	return !slices.ContainsFunc(t.of(r), func(pattern string) bool { return t[pattern] != "Park" && t[pattern] != "Exempt" })
}

func matches(known, pattern string) bool {
	unknown := strings.NewReplacer(`/\?`, "(/.*)?", `\?`, ".*") // "/?/pay" may be "/pay"
	return regexp.MustCompile("^" + unknown.Replace(regexp.QuoteMeta(known)) + "$").MatchString(pattern)
}

// seen counts the guarded routes that are not exempt, and lists the routes of the table that were not found.
func (t table) seen(routes []route) (n int, missing []string) {
	found := map[string]bool{}
	for _, r := range routes {
		for _, pattern := range t.of(r) {
			found[pattern] = t[pattern] != "Exempt"
		}
	}
	maps.DeleteFunc(found, func(_ string, counts bool) bool { return !counts })
	for pattern, said := range t {
		if said != "Exempt" && !found[pattern] {
			missing = append(missing, pattern)
		}
	}
	slices.Sort(missing)
	return len(found), missing
}
