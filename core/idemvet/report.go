package main

import (
	"cmp"
	"fmt"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// finding is what is wrong at a place.
type finding struct {
	at     token.Position
	check  string
	text   string
	routes []route // those that reach it
	path   string  // the functions from the handler to it
}

// The exit codes.
const (
	allWell   = 0
	foundSome = 1
	notRead   = 2
	notAll    = 3
)

// vet writes what is wrong, and how many guarded routes were seen. It returns the exit code.
func (p *program) vet(to io.Writer, expected int) int {
	said, routes := p.table(), p.routes()
	found := p.check(said, routes)
	for _, f := range found {
		_, _ = fmt.Fprintf(to, "%s: %s\n", short(f.at), f)
	}
	seen, missing := said.seen(routes)
	for _, pattern := range missing {
		_, _ = fmt.Fprintf(to, "idemvet: %s is in the table of routes, but was not seen behind the guard: it was not checked\n",
			pattern)
	}
	for _, one := range p.uncompiled {
		_, _ = fmt.Fprintf(to, "idemvet: %s\n", one)
	}
	_, _ = fmt.Fprintf(to, "idemvet: guarded routes seen: %d; findings: %d\n", seen, len(found))
	switch {
	case expected >= 0 && seen != expected:
		_, _ = fmt.Fprintf(to, "idemvet: -routes says %d\n", expected)
		return foundSome
	case expected < 0 && len(routes) == 0 && p.makesGuard():
		_, _ = fmt.Fprintln(to, "idemvet: the app makes a guard, but no route was seen behind it: nothing was checked")
		return foundSome
	case len(found)+len(missing) > 0:
		return foundSome
	case len(p.uncompiled) > 0:
		return notAll
	}
	return allWell
}

// makesGuard reports whether the app has a guard anywhere.
func (p *program) makesGuard() (yes bool) {
	for _, f := range p.functions {
		eachInstruction(f, func(i ssa.Instruction) {
			call, ok := i.(*ssa.Call)
			yes = yes || ok && isGuard(callee(call))
		})
	}
	return yes
}

// asking returns the functions that look for an attempt, and those that call them.
func (p *program) asking() map[*ssa.Function]bool {
	var todo []*ssa.Function
	for _, f := range p.functions {
		eachInstruction(f, func(i ssa.Instruction) {
			if call, ok := i.(ssa.CallInstruction); ok && asksForAttempt(callee(call)) {
				todo = append(todo, f)
			}
		})
	}
	found := map[*ssa.Function]bool{}
	for ; len(todo) > 0; todo = todo[1:] {
		f := todo[0]
		if f == nil || found[f] {
			continue
		}
		found[f] = true
		todo = append(todo, f.Parent())
		for _, site := range p.callers[f] {
			todo = append(todo, site.Parent())
		}
	}
	return found
}

// short names a file as it is seen from here.
func short(at token.Position) string {
	dir, _ := os.Getwd()
	if rel, err := filepath.Rel(dir, at.Filename); err == nil && !strings.HasPrefix(rel, "..") {
		at.Filename = rel
	}
	return at.String()
}

func (f *finding) String() string {
	text := f.check + ": " + f.text
	if len(f.routes) == 0 {
		return text
	}
	text += " [" + f.routes[0].String()
	more := map[string]bool{}
	for _, r := range f.routes {
		more[r.String()] = true
	}
	if more := len(more) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ": " + f.path + "]"
}

// check returns what is wrong, in the order of the source.
func (p *program) check(said table, routes []route) []*finding {
	found := map[string]*finding{}
	silenced := p.silenced()
	add := func(notes []*note, of ...route) {
		for _, n := range notes {
			in := p.ssa.Fset.Position(n.at)
			for _, pos := range p.places(n) {
				at := p.ssa.Fset.Position(pos)
				if silenced[at.Filename][at.Line] || silenced[in.Filename][in.Line] {
					continue
				}
				key := fmt.Sprint(at, in, n.check)
				if found[key] == nil {
					found[key] = &finding{at: at, check: n.check, text: n.text, path: strings.Join(n.path, " > ")}
					if at != in {
						found[key].text += " (in generated code: " + short(in) + ")"
					}
				}
				found[key].routes = append(found[key].routes, of...)
			}
		}
	}
	reached := map[*ssa.Function]bool{}
	for _, r := range routes {
		w := &walk{program: p, guarded: true, writes: !said.writesForItself(r), reached: reached}
		var entries []closure
		for _, from := range r.behind {
			entries = append(entries, p.entries(from, 0)...)
		}
		w.run(entries)
		add(w.found, r)
	}
	var others []closure
	for f := range p.asking() {
		if !reached[f] && f.Parent() == nil {
			others = append(others, closureOf(f, nil))
		}
	}
	w := &walk{program: p, reached: reached}
	w.run(others)
	add(w.found)
	add(p.freshKeys())
	return slices.SortedFunc(maps.Values(found), func(a, b *finding) int {
		return cmp.Or(strings.Compare(a.at.Filename, b.at.Filename), a.at.Offset-b.at.Offset, strings.Compare(a.check, b.check))
	})
}

// silenced are the lines, by file, whose findings are meant so: those with a comment that has a reason, and the next ones.
func (p *program) silenced() map[string]map[int]bool {
	lines := map[string]map[int]bool{}
	for _, one := range p.packages {
		for _, file := range one.Syntax {
			for _, group := range file.Comments {
				for _, c := range group.List {
					reason, ok := strings.CutPrefix(c.Text, "//idemvet:ignore")
					at := p.ssa.Fset.Position(c.Pos())
					if !ok || strings.TrimSpace(reason) == "" {
						continue
					}
					if lines[at.Filename] == nil {
						lines[at.Filename] = map[int]bool{}
					}
					lines[at.Filename][at.Line], lines[at.Filename][at.Line+1] = true, true
				}
			}
		}
	}
	return lines
}
