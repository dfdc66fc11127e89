package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// summary is what is known of a function for its callers, whatever package they are in.
type summary struct {
	Stray   []site            // writes past the attempt
	Depends map[origin][]site // writes through the receiver or a parameter: the caller decides
	Dynamic []method          // calls through interfaces, with a receiver that does not come from an attempt
	Mounts  []mount           // routes that it puts on a router that it is given
}

// AFact implements [analysis.Fact].
func (*summary) AFact() {}

// site is a place in the source.
type site struct{ Where, What string }

// method is a method of an interface.
type method struct{ Path, Interface, Name string }

func add[T comparable](to *[]T, from ...T) (changed bool) {
	for _, one := range from {
		if !slices.Contains(*to, one) {
			*to, changed = append(*to, one), true
		}
	}
	return changed
}

// put adds sites whose fate depends on an origin.
func (s *summary) put(o origin, sites ...site) bool {
	switch o {
	case bound:
		return false
	case stray:
		return add(&s.Stray, sites...)
	}
	if s.Depends == nil {
		s.Depends = map[origin][]site{}
	}
	known := s.Depends[o]
	changed := add(&known, sites...)
	s.Depends[o] = known
	return changed
}

// empty reports whether no caller needs to know s.
func (s *summary) empty() bool {
	return len(s.Stray) == 0 && len(s.Depends) == 0 && len(s.Dynamic) == 0 && len(s.Mounts) == 0
}

// all returns the writes of a handler: nobody gives it a transaction.
func (s *summary) all() []site {
	sites := slices.Clone(s.Stray)
	for _, more := range s.Depends {
		sites = append(sites, more...)
	}
	slices.SortFunc(sites, func(a, b site) int { return slices.Compare([]string{a.Where, a.What}, []string{b.Where, b.What}) })
	return slices.Compact(sites)
}

// summaries are those of the functions of the package under analysis; of other packages they are facts.
type summaries struct {
	pass      *analysis.Pass
	r         reporter
	own       map[*types.Func]*summary
	functions []function
}

type function struct {
	sum    *summary
	body   *ast.BlockStmt
	locals locals
}

func (s *summaries) of(f *types.Func) *summary {
	if own, ok := s.own[f]; ok {
		return own
	}
	known := new(summary)
	if f == nil || f.Pkg() == s.pass.Pkg || !s.pass.ImportObjectFact(f, known) {
		return new(summary)
	}
	return known
}

// summarize reads all functions of the package until nothing new is learnt: they may call each other in a circle.
func summarize(pass *analysis.Pass, r reporter) *summaries {
	s := &summaries{pass: pass, r: r, own: map[*types.Func]*summary{}}
	for _, file := range pass.Files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				sum := new(summary)
				s.own[pass.TypesInfo.Defs[f.Name].(*types.Func)] = sum
				s.functions = append(s.functions, function{sum, f.Body, localsOf(pass, f)})
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, f := range s.functions {
			changed = s.readBody(f.sum, f.body, f.locals) || changed
		}
	}
	return s
}

// readBody adds to sum what the body does.
func (s *summaries) readBody(sum *summary, body ast.Node, l locals) (changed bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			changed = s.readCall(sum, call, l) || changed
		}
		return true
	})
	return changed
}

var writes = []string{"Create", "CreateInBatches", "Save", "FirstOrCreate", "Update", "Updates", "UpdateColumn",
	"UpdateColumns", "Delete", "Exec"}

func (s *summaries) readCall(sum *summary, call *ast.CallExpr, l locals) bool {
	f := callee(s.pass, call)
	sel, _ := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if is(f, gormPath, writes...) && sel != nil && isDB(s.pass.TypesInfo.TypeOf(sel.X)) {
		if s.r.silenced(call) {
			return false
		}
		return sum.put(l.of(sel.X), s.site(call, f.Name()))
	}
	if f == nil {
		return false
	}
	if at, ok := s.interfaceOf(f); ok {
		if sel != nil && l.of(sel.X) == bound {
			return false
		}
		return add(&sum.Dynamic, at)
	}
	called := s.of(f)
	changed := add(&sum.Stray, called.Stray...)
	changed = add(&sum.Dynamic, called.Dynamic...) || changed
	for param, sites := range called.Depends {
		changed = sum.put(s.given(call, sel, param, l), sites...) || changed
	}
	return changed
}

// given is the origin of what a call gives to a parameter or receiver.
func (s *summaries) given(call *ast.CallExpr, sel *ast.SelectorExpr, param origin, l locals) origin {
	if param == receiver && sel != nil {
		return l.of(sel.X)
	}
	if param < 0 || len(call.Args) == 0 {
		return stray
	}
	return l.of(call.Args[min(int(param), len(call.Args)-1)])
}

func (s *summaries) interfaceOf(f *types.Func) (method, bool) {
	recv := f.Signature().Recv()
	if recv == nil || !types.IsInterface(recv.Type()) {
		return method{}, false
	}
	n, ok := types.Unalias(recv.Type()).(*types.Named)
	if !ok || !appInterfaces(n.Obj().Pkg()) {
		return method{}, false
	}
	return method{n.Obj().Pkg().Path(), n.Obj().Name(), f.Name()}, true
}

// appInterfaces reports whether the interfaces of a package may be those between an app's layers: not those of the standard
// library, GORM and the routers.
func appInterfaces(p *types.Package) bool {
	if p == nil || !strings.Contains(strings.SplitN(p.Path(), "/", 2)[0], ".") {
		return false
	}
	return routerTypes[p.Path()] == nil && !strings.HasPrefix(p.Path(), "gorm.io/")
}

func (s *summaries) site(n ast.Node, what string) site {
	at := s.pass.Fset.Position(n.Pos())
	where := filepath.Join(filepath.Base(filepath.Dir(at.Filename)), filepath.Base(at.Filename))
	return site{fmt.Sprintf("%s:%d", where, at.Line), what}
}
