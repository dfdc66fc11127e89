package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph"
	"golang.org/x/tools/go/callgraph/vta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// program is the app: all packages of its main modules that the named packages need. Of other modules only the types are
// known.
type program struct {
	packages   []*packages.Package
	uncompiled []string // packages that do not compile, and why
	ssa        *ssa.Program
	functions  []*ssa.Function // those of the app that have a body, in the order of the source
	graph      *callgraph.Graph
	callers    map[*ssa.Function][]ssa.CallInstruction
	closures   map[*ssa.Function][]*ssa.MakeClosure
	fields     map[*types.Var][]*ssa.Store // what is stored in the fields of structs, in the whole program
	globals    map[*ssa.Global][]*ssa.Store
	lent       map[*ssa.Function]*ssa.Call // functions that are given to another module: chi's r.Route(pattern, f)
	reading    map[ssa.Value]bool          // what is being followed: a loop may lead back to it
	concrete   []types.Type                // types of the app that an interface may hold
	frames     map[frame]*frame
	made       map[part][]source // see origins
	clients    []string          // packages that call others: see calls.go
	generated  map[string]bool   // files
	unreached  map[*ssa.BasicBlock]bool
}

func load(dir string, patterns []string) (*program, error) {
	// First the names of the packages, then the types: a package that was not named may have the routes or the writes.
	const names = packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedModule
	named, err := packages.Load(&packages.Config{Mode: names, Dir: dir}, patterns...)
	if err != nil {
		return nil, err
	}
	var paths []string
	asked := map[*packages.Package]bool{}
	for _, p := range named {
		asked[p] = true
	}
	packages.Visit(named, nil, func(p *packages.Package) {
		if asked[p] || p.Module != nil && p.Module.Main && !ofLibrary(p.PkgPath) {
			paths = append(paths, p.PkgPath)
		}
	})
	const syntax = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedExportFile
	loaded, err := packages.Load(&packages.Config{Mode: syntax, Dir: dir}, paths...)
	if err != nil {
		return nil, err
	}
	if len(loaded) == 0 {
		return nil, errors.New("there is no package to read")
	}
	loaded, uncompiled, err := leaveOut(loaded, neededBy(named))
	if err != nil {
		return nil, err
	}
	p := &program{packages: loaded, uncompiled: uncompiled, callers: map[*ssa.Function][]ssa.CallInstruction{},
		closures: map[*ssa.Function][]*ssa.MakeClosure{}, fields: map[*types.Var][]*ssa.Store{},
		globals: map[*ssa.Global][]*ssa.Store{}, lent: map[*ssa.Function]*ssa.Call{}, reading: map[ssa.Value]bool{},
		frames: map[frame]*frame{}, made: map[part][]source{}, generated: map[string]bool{}, unreached: map[*ssa.BasicBlock]bool{}}
	for _, one := range loaded {
		for _, file := range one.Syntax {
			p.generated[one.Fset.Position(file.Package).Filename] = ast.IsGenerated(file)
		}
	}
	p.ssa, _ = ssautil.Packages(loaded, ssa.InstantiateGenerics)
	p.ssa.Build()
	all := ssautil.AllFunctions(p.ssa)
	for _, one := range loaded { // also what nothing calls yet: a framework may, by reflection
		for _, object := range one.TypesInfo.Defs {
			if f, ok := object.(*types.Func); ok {
				addFunction(all, p.ssa.FuncValue(f))
			}
		}
	}
	p.graph = vta.CallGraph(all, nil)
	for f := range all {
		if len(f.Blocks) > 0 {
			p.functions = append(p.functions, f)
		}
	}
	slices.SortFunc(p.functions, func(a, b *ssa.Function) int {
		if byPos := int(a.Pos()) - int(b.Pos()); byPos != 0 {
			return byPos
		}
		return strings.Compare(a.String(), b.String())
	})
	for _, f := range p.functions {
		p.index(f)
	}
	for _, t := range p.ssa.RuntimeTypes() {
		if _, ok := types.Unalias(t).Underlying().(*types.Interface); !ok {
			p.concrete = append(p.concrete, t)
		}
	}
	return p, nil
}

// neededBy returns the packages that the mains with a guard import; nil if there are none: then all are needed.
func neededBy(named []*packages.Package) map[string]bool {
	var needed map[string]bool
	for _, main := range named {
		imports, guarded := map[string]bool{}, false
		packages.Visit([]*packages.Package{main}, nil, func(p *packages.Package) {
			imports[p.PkgPath] = true
			guarded = guarded || slices.Contains(adapters, p.PkgPath)
		})
		if main.Name != "main" || !guarded {
			continue
		}
		if needed == nil {
			needed = imports
		}
		maps.Copy(needed, imports)
	}
	return needed
}

// leaveOut takes out the packages that do not compile, and says why. It is an error if one of them is needed.
func leaveOut(loaded []*packages.Package, needed map[string]bool) (whole []*packages.Package, out []string, err error) {
	var wrong []error
	said := map[string]bool{}
	for _, p := range loaded {
		var errs []error
		packages.Visit([]*packages.Package{p}, func(in *packages.Package) bool {
			for _, e := range in.Errors {
				text := e.Error()
				if strings.HasPrefix(e.Msg, "# ") { // the package, and the compiler's lines
					_, text, _ = strings.Cut(e.Msg, "\n")
				}
				errs = append(errs, errors.New(text))
			}
			return true
		}, nil)
		switch {
		case len(errs) == 0:
			whole = append(whole, p)
		case needed == nil || needed[p.PkgPath]:
			for _, err := range errs {
				if !said[err.Error()] {
					said[err.Error()] = true
					wrong = append(wrong, err)
				}
			}
		default:
			out = append(out, p.PkgPath+" does not compile, and was not checked: "+errs[0].Error())
		}
	}
	if len(wrong) > 0 {
		return nil, nil, fmt.Errorf("the app does not compile:\n%w", errors.Join(wrong...))
	}
	return whole, out, nil
}

func addFunction(to map[*ssa.Function]bool, f *ssa.Function) {
	if f == nil || to[f] || f.TypeParams().Len() > len(f.TypeArgs()) {
		return
	}
	to[f] = true
	for _, inner := range f.AnonFuncs {
		addFunction(to, inner)
	}
}

// ofLibrary reports whether a package is one of this library: its functions are known, not read.
func ofLibrary(path string) bool {
	rest, ok := strings.CutPrefix(path, libraryPath+"/")
	first, _, _ := strings.Cut(rest, "/")
	return ok && slices.Contains([]string{"authctx", "core", "echoidem", "ginidem", "gormstore"}, first)
}

func eachInstruction(f *ssa.Function, inner func(ssa.Instruction)) {
	for _, b := range f.Blocks {
		for _, i := range b.Instrs {
			inner(i)
		}
	}
}

func (p *program) index(f *ssa.Function) {
	eachInstruction(f, func(i ssa.Instruction) {
		switch i := i.(type) {
		case *ssa.MakeClosure:
			p.closures[i.Fn.(*ssa.Function)] = append(p.closures[i.Fn.(*ssa.Function)], i)
		case *ssa.Store:
			switch to := i.Addr.(type) {
			case *ssa.FieldAddr:
				field := fieldOf(to.X.Type(), to.Field)
				p.fields[field] = append(p.fields[field], i)
			case *ssa.Global:
				p.globals[to] = append(p.globals[to], i)
			}
		case ssa.CallInstruction:
			targets, _ := p.targets(i)
			for _, to := range targets {
				p.callers[to] = append(p.callers[to], i)
			}
			if call, ok := i.(*ssa.Call); ok && len(targets) == 0 {
				for _, arg := range call.Call.Args {
					if to := functionOf(arg); to != nil {
						p.lent[to] = call
					}
				}
			}
		}
	})
}

// functionOf returns the function that a value is made of, if the value says it itself. A method value is its method.
func functionOf(v ssa.Value) *ssa.Function {
	switch v := v.(type) {
	case *ssa.Function:
		return v
	case *ssa.MakeClosure:
		return v.Fn.(*ssa.Function)
	case *ssa.ChangeType:
		return functionOf(v.X)
	}
	return nil
}

// targets returns the functions of the app that a call may reach, and whether it may reach those of other modules. Where the
// flow of types tells none for an interface, because its value has gone through another module, all types of the app that
// implement it count.
func (p *program) targets(site ssa.CallInstruction) (targets []*ssa.Function, foreign bool) {
	add := func(f *ssa.Function) {
		if f == nil || len(f.Blocks) == 0 {
			foreign = true
		} else if !slices.Contains(targets, f) {
			targets = append(targets, f)
		}
	}
	common := site.Common()
	if f := common.StaticCallee(); f != nil {
		add(f)
		return targets, foreign
	}
	if node := p.graph.Nodes[site.Parent()]; node != nil {
		for _, edge := range node.Out {
			if edge.Site == site {
				add(edge.Callee.Func)
			}
		}
	}
	if common.IsInvoke() && isRequest(common.Value.Type()) {
		foreign = true // the router's own, also where the app has one around it
	}
	if len(targets) > 0 || foreign || !common.IsInvoke() || !p.ofApp(common.Method.Pkg()) {
		return targets, foreign || len(targets) == 0
	}
	for _, t := range p.concrete {
		if types.Implements(t, common.Value.Type().Underlying().(*types.Interface)) {
			add(p.ssa.LookupMethod(t, common.Method.Pkg(), common.Method.Name()))
		}
	}
	return targets, foreign || len(targets) == 0
}

// ofApp reports whether a package is one of those that were read.
func (p *program) ofApp(pkg *types.Package) bool {
	return slices.ContainsFunc(p.packages, func(one *packages.Package) bool { return one.Types == pkg })
}

// fieldOf returns a field of a struct, or of what a pointer points to; that of the generic type if it has one.
func fieldOf(t types.Type, i int) *types.Var {
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
	}
	return t.Underlying().(*types.Struct).Field(i).Origin()
}
