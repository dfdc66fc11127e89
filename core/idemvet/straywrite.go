package main

import (
	"go/ast"
	"go/constant"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var strayWrite = &analysis.Analyzer{
	Name:      "straywrite",
	Doc:       "finds writes of guarded handlers that go past the attempt's transaction",
	Run:       runStrayWrite,
	FactTypes: []analysis.Fact{new(summary), new(pkg)},
}

// pkg is what other packages need to know of a package, apart from its functions.
type pkg struct {
	Policies   map[string]string // what core.Routes literals say: the recovery, or "Exempt", by "POST /v1/payments"
	Implements []implementation
}

// AFact implements [analysis.Fact].
func (*pkg) AFact() {}

// implementation is a method of a type that other packages may not be able to name.
type implementation struct {
	Of  method
	Sum summary
}

func runStrayWrite(pass *analysis.Pass) (any, error) {
	if !concerned(pass.Pkg) {
		return nil, nil
	}
	s := summarize(pass, newReporter(pass))
	own := pkg{map[string]string{}, s.implementations()}
	for _, file := range pass.Files {
		readPolicies(pass, file, own.Policies)
	}
	known := []*pkg{&own}
	for _, fact := range pass.AllPackageFacts() {
		known = append(known, fact.Fact.(*pkg))
	}
	s.eachRoute(func(at ast.Node, route mount) { s.check(at, route, known) })

	for f, sum := range s.own {
		if !sum.empty() {
			pass.ExportObjectFact(f, sum)
		}
	}
	if len(own.Policies)+len(own.Implements) > 0 {
		pass.ExportPackageFact(&own)
	}
	return nil, nil
}

// concerned reports whether a package can have anything to do with the check: it imports a package that the check knows, or
// one that imports it.
func concerned(p *types.Package) bool {
	seen := map[*types.Package]bool{}
	var visit func(p *types.Package) bool
	visit = func(p *types.Package) bool {
		if seen[p] {
			return false
		}
		seen[p] = true
		for _, imported := range p.Imports() {
			switch imported.Path() {
			case gormPath, corePath, ginPath, echoPath, echo5Path, chiPath:
				return true
			}
			if visit(imported) {
				return true
			}
		}
		return false
	}
	// The packages themselves, and those of GORM, write for their users.
	return !strings.HasPrefix(p.Path(), "gorm.io/") && p.Path() != storePath && visit(p)
}

// eachRoute calls check for every guarded route that is mounted in this package.
func (s *summaries) eachRoute(check func(at ast.Node, route mount)) {
	count := func() (n int) {
		for _, f := range s.functions {
			n += len(f.sum.Mounts)
		}
		return n
	}
	read := func(guarded func(ast.Node, mount)) {
		for _, f := range s.functions {
			m := &mounter{s, f.sum, f.locals, map[types.Object]router{}, map[types.Object]bool{}, guarded}
			m.read(f.body)
		}
	}
	for before := -1; before != count(); {
		before = count()
		read(func(ast.Node, mount) {})
	}
	read(check)
}

func (s *summaries) check(at ast.Node, route mount, known []*pkg) {
	if strings.HasSuffix(s.pass.Fset.Position(at.Pos()).Filename, "_test.go") {
		return
	}
	pattern := route.Method + " " + route.Path
	for _, p := range known {
		if policy := p.Policies[pattern]; policy == "Park" || policy == "Exempt" {
			return
		}
	}
	for _, found := range s.resolve(route.Handlers, known) {
		s.r.reportf(at, "%s writes past the attempt: %s at %s uses a *gorm.DB that is neither from gormstore.Tx nor given the "+
			"request's context", pattern, found.What, found.Where)
	}
}

// resolve returns the writes of handlers, with those of all methods that their calls through interfaces may reach.
func (s *summaries) resolve(handlers summary, known []*pkg) []site {
	total, seen := handlers, map[method]bool{}
	for len(handlers.Dynamic) > 0 {
		next := handlers.Dynamic[0]
		handlers.Dynamic = handlers.Dynamic[1:]
		if seen[next] {
			continue
		}
		seen[next] = true
		for _, reached := range s.reached(next, known) {
			add(&total.Stray, reached.all()...)
			handlers.Dynamic = append(handlers.Dynamic, reached.Dynamic...)
		}
	}
	return total.all()
}

// reached returns what is known of the methods that a call through an interface may reach.
func (s *summaries) reached(m method, known []*pkg) (reached []summary) {
	for _, p := range known {
		for _, one := range p.Implements {
			if one.Of == m {
				reached = append(reached, one.Sum)
			}
		}
	}
	i := lookup(s.pass.Pkg, m)
	if i == nil {
		return reached
	}
	for _, fact := range s.pass.AllObjectFacts() {
		f, ok := fact.Object.(*types.Func)
		if !ok || f.Name() != m.Name || f.Signature().Recv() == nil {
			continue
		}
		if types.Implements(f.Signature().Recv().Type(), i) {
			reached = append(reached, *fact.Fact.(*summary))
		}
	}
	return reached
}

// lookup finds an interface in the packages that p imports, directly or not.
func lookup(p *types.Package, m method) *types.Interface {
	seen := map[*types.Package]bool{}
	var find func(p *types.Package) *types.Interface
	find = func(p *types.Package) *types.Interface {
		if seen[p] {
			return nil
		}
		seen[p] = true
		if p.Path() == m.Path {
			if o := p.Scope().Lookup(m.Interface); o != nil {
				i, _ := o.Type().Underlying().(*types.Interface)
				return i
			}
		}
		for _, imported := range p.Imports() {
			if i := find(imported); i != nil {
				return i
			}
		}
		return nil
	}
	return find(p)
}

// implementations are the methods of this package's types that implement interfaces of this package and of those that it
// imports: a constructor may hide the type.
func (s *summaries) implementations() (all []implementation) {
	for _, p := range append([]*types.Package{s.pass.Pkg}, s.pass.Pkg.Imports()...) {
		for _, name := range p.Scope().Names() {
			o, ok := p.Scope().Lookup(name).(*types.TypeName)
			if !ok || !types.IsInterface(o.Type()) {
				continue
			}
			i, ok := o.Type().Underlying().(*types.Interface)
			if !ok || i.NumMethods() == 0 {
				continue
			}
			for f, sum := range s.own {
				recv := f.Signature().Recv()
				if recv == nil || sum.empty() || !has(i, f.Name()) || !types.Implements(recv.Type(), i) {
					continue
				}
				all = append(all, implementation{method{p.Path(), name, f.Name()}, *sum})
			}
		}
	}
	return all
}

func has(i *types.Interface, name string) bool {
	for m := range i.Methods() {
		if m.Name() == name {
			return true
		}
	}
	return false
}

// readPolicies reads the core.Routes literals of a file.
func readPolicies(pass *analysis.Pass, file *ast.File, policies map[string]string) {
	ast.Inspect(file, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok || !named(pass.TypesInfo.TypeOf(table), corePath, "Routes") {
			return true
		}
		for _, element := range table.Elts {
			route, _ := element.(*ast.KeyValueExpr)
			if route == nil {
				continue
			}
			pattern := pass.TypesInfo.Types[route.Key].Value
			policy, ok := route.Value.(*ast.CompositeLit)
			if pattern == nil || pattern.Kind() != constant.String || !ok {
				continue
			}
			for _, field := range policy.Elts {
				if said := policyOf(field); said != "" {
					policies[constant.StringVal(pattern)] = said
				}
			}
		}
		return true
	})
}

func policyOf(field ast.Expr) string {
	kv, ok := field.(*ast.KeyValueExpr)
	if !ok {
		return ""
	}
	switch name, _ := kv.Key.(*ast.Ident); {
	case name == nil:
	case name.Name == "Exempt":
		return "Exempt"
	case name.Name == "Recovery":
		if value, ok := kv.Value.(*ast.SelectorExpr); ok {
			return value.Sel.Name
		}
	}
	return ""
}
