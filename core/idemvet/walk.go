package main

import (
	"cmp"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// mode is where code runs.
type mode uint8

const (
	inGoroutine mode = 1 << iota // that the handler has started
	inCall                       // in a core.Call: what it does is no part of the attempt, and is not done twice
)

// walk runs the functions that one handler reaches, with what is known of their arguments in place of the arguments.
type walk struct {
	*program
	// guarded: the walk began at a guarded route. Else only what is wrong everywhere is reported.
	guarded, writes bool // writes: those past the attempt are wrong

	done    map[uint64]*invocation
	reached map[*ssa.Function]bool
	path    []string
	at      token.Pos     // the call that is being walked
	roots   []*invocation // the handler, and middleware
	found   []*note
	// What a function has stored where others read it. It grows until nothing new is learnt.
	stored  map[any]value // by field (*types.Var) or variable (*ssa.Alloc)
	carries label         // what the handler's context carries by c.Set
	changed bool
}

// note is what a walk has found.
type note struct {
	at          token.Pos
	check, text string
	path        []string // the functions from the handler to the place
	in          *invocation
}

func (a *activation) note(site ssa.CallInstruction, check, text string) *note {
	return &note{cmp.Or(site.Pos(), a.at), check, text, slices.Clone(a.path), a.invocation}
}

func (a *activation) report(site ssa.CallInstruction, check, text string) {
	a.found = append(a.found, a.note(site, check, text))
}

// run walks handlers and middleware, and the handlers that middleware returns. What it finds is in found.
func (w *walk) run(entries []closure) {
	w.stored = map[any]value{}
	for rounds := 0; rounds < 10 && (rounds == 0 || w.changed); rounds++ {
		w.changed, w.found, w.roots = false, nil, nil
		w.done = map[uint64]*invocation{}
		for todo := slices.Clone(entries); len(todo) > 0; todo = todo[1:] {
			if c := todo[0]; len(c.function.Blocks) > 0 && w.done[w.key(c, w.requestOf(c.function), 0)] == nil {
				root := w.enter(c, w.requestOf(c.function), 0)
				w.roots = append(w.roots, root)
				todo = append(todo, root.result.functions...)
			}
		}
	}
	w.readsBehind()
}

// requestOf are the arguments that a router gives to a handler.
func (w *walk) requestOf(f *ssa.Function) []value {
	args := make([]value, len(f.Params))
	for i, p := range f.Params {
		if isRequest(p.Type()) {
			args[i].labels = request | w.carries
		}
	}
	return args
}

// entries returns the functions that a router calls for a handler: a function, a method, a literal, a value with ServeHTTP,
// or what a function makes of others.
func (p *program) entries(from source, depth int) (all []closure) {
	if depth > 6 {
		return nil
	}
	for _, one := range p.sources(from.value, from.at) {
		if c, ok := p.madeBefore(one); ok {
			all = append(all, c)
			continue
		}
		if f := p.serveHTTP(one.value); f != nil {
			all = append(all, closureOf(f, nil))
			continue
		}
		if call, ok := one.value.(*ssa.Call); ok { // gin.WrapF(h), alice.New(auth).Then(h)
			for _, part := range p.spread(call.Call.Args, one.at) {
				all = append(all, p.entries(part, depth+1)...)
			}
		}
	}
	return all
}

// madeBefore returns a function with those of its free variables that are functions: nothing else of what was made before
// the request matters. It is within closures that have it as such a variable.
func (p *program) madeBefore(from source, within ...source) (closure, bool) {
	switch v := from.value.(type) {
	case *ssa.Function:
		return closureOf(v, nil), len(v.Blocks) > 0
	case *ssa.MakeClosure:
		if slices.Contains(within, from) { // a closure that calls itself
			return closure{}, false
		}
		within = append(within, from)
		free := make([]value, len(v.Bindings))
		for i, binding := range v.Bindings {
			if len(within) > deepestClosure {
				break
			}
			t := binding.Type()
			var inner []source
			if ptr, ok := t.Underlying().(*types.Pointer); ok && isFunction(ptr.Elem()) { // a variable that holds a function
				f := flow{program: p, seen: map[source]bool{}}
				f.load(binding, from.at)
				inner = f.found
			} else if isFunction(t) {
				inner = p.sources(binding, from.at)
			}
			for _, one := range p.elementsIn(inner) {
				if f, ok := p.madeBefore(one, within...); ok {
					free[i].functions = append(free[i].functions, f)
				}
			}
		}
		return closureOf(v.Fn.(*ssa.Function), free), true
	}
	return closure{}, false
}

// elementsIn returns values with the elements of a slice in the place of what is loaded from it: mws[i].
func (p *program) elementsIn(values []source) (all []source) {
	for _, one := range values {
		if load, ok := one.value.(*ssa.UnOp); ok {
			if element, ok := load.X.(*ssa.IndexAddr); ok {
				for _, stored := range p.elements(element.X, one.at) {
					all = append(all, p.sources(stored.value, stored.at)...)
				}
				continue
			}
		}
		all = append(all, one)
	}
	return all
}

func isFunction(t types.Type) bool {
	_, ok := t.Underlying().(*types.Signature)
	return ok
}

// serveHTTP returns the handler that a value of a type of the app is.
func (p *program) serveHTTP(v ssa.Value) *ssa.Function {
	if name := namedOf(v.Type()); name == nil || !p.ofApp(name.Pkg()) || types.IsInterface(v.Type()) ||
		p.ssa.MethodSets.MethodSet(v.Type()).Lookup(nil, "ServeHTTP") == nil {
		return nil
	}
	return p.ssa.LookupMethod(v.Type(), nil, "ServeHTTP")
}

func (w *walk) key(c closure, args []value, mode mode) uint64 {
	id := hash(mode, hash(c.id, hashes(args)))
	if c.function.Syntax() == nil { // the compiler's, of an embedded field: what it does has the place of its call
		id = hash(w.at, id)
	}
	return id
}

// enter returns what a function returns and does, and reports what is wrong with it.
func (w *walk) enter(c closure, args []value, mode mode) *invocation {
	id := w.key(c, args, mode)
	if known, ok := w.done[id]; ok {
		return known
	}
	inner := new(invocation)
	result := &inner.result
	w.done[id] = inner
	w.reached[c.function] = true
	if c.function.Synthetic == "" {
		w.path = append(w.path, strings.TrimSuffix(c.function.Name(), "$bound"))
		defer func() { w.path = w.path[:len(w.path)-1] }()
	}
	a := activation{w, c, args, mode, map[ssa.Value]*value{}, inner}
	eachInstruction(c.function, func(i ssa.Instruction) {
		if a.dead(i.Block()) {
			return
		}
		switch i := i.(type) {
		case *ssa.Call:
			a.value(i)
		case *ssa.Defer:
			a.call(i, a.mode)
		case *ssa.Go:
			a.call(i, a.mode|inGoroutine)
		case *ssa.Store:
			a.store(i)
		case *ssa.Return:
			if len(i.Results) == 1 {
				*result = result.join(a.value(i.Results[0]))
				return
			}
			for n, r := range i.Results {
				*result = result.join(value{fields: map[int]value{n: a.value(r)}})
			}
		}
	})
	return inner
}

// activation is a function that is being walked.
type activation struct {
	*walk
	closure
	args       []value
	mode       mode
	values     map[ssa.Value]*value
	invocation *invocation
}

func (a *activation) value(v ssa.Value) value {
	if known, ok := a.values[v]; ok {
		return *known
	}
	found := new(value)
	a.values[v] = found
	*found = a.find(v)
	if _, constant := v.(*ssa.Const); !constant && types.IsInterface(v.Type()) && len(found.types) == 0 {
		found.open = true
	}
	return *found
}

func (a *activation) find(v ssa.Value) (found value) {
	switch v := v.(type) {
	case *ssa.Parameter:
		if i := slices.Index(a.closure.function.Params, v); i < len(a.args) {
			return a.args[i]
		}
	case *ssa.FreeVar:
		if i := slices.Index(a.closure.function.FreeVars, v); i < len(a.free) {
			found = a.free[i]
		}
		return a.orMade(found.join(a.stored[variable(a.program, v)]), v)
	case *ssa.Const:
		if v.Value != nil && v.Value.Kind() == constant.String {
			text := constant.StringVal(v.Value)
			found.labels = statement(text)
			found.tables = tablesIn(text, found.labels)
		}
	case *ssa.Global:
		for _, store := range a.globals[v] {
			if said, ok := store.Val.(*ssa.Const); ok {
				found = found.join(a.find(said))
			}
		}
	case *ssa.Function:
		found.functions = []closure{closureOf(v, nil)}
	case *ssa.MakeClosure:
		free := make([]value, len(v.Bindings))
		for i, binding := range v.Bindings {
			free[i] = a.value(binding)
		}
		found.functions = []closure{closureOf(v.Fn.(*ssa.Function), free)}
	case *ssa.Alloc:
		return a.cell(v).join(a.stored[v])
	case *ssa.MakeMap:
		for _, ref := range *v.Referrers() {
			if update, ok := ref.(*ssa.MapUpdate); ok {
				found = found.join(a.value(update.Value))
			}
		}
	case *ssa.FieldAddr:
		return a.field(v.X, v.Field)
	case *ssa.Field:
		return a.field(v.X, v.Field)
	case *ssa.UnOp:
		switch v.X.(type) {
		case *ssa.FreeVar, *ssa.Global: // a variable
			return a.orMade(a.value(v.X), v)
		}
		return a.value(v.X)
	case *ssa.IndexAddr:
		return a.value(v.X)
	case *ssa.Index:
		return a.value(v.X)
	case *ssa.Lookup:
		return a.value(v.X)
	case *ssa.Slice:
		return a.value(v.X)
	case *ssa.Range:
		return a.value(v.X)
	case *ssa.Next:
		return a.value(v.Iter)
	case *ssa.BinOp: // a statement is what its beginning says
		begins := a.value(v.X)
		return value{labels: begins.labels & (readSQL | writeSQL), tables: begins.tables}
	case *ssa.Phi:
		for i, edge := range v.Edges {
			if !a.dead(v.Block().Preds[i]) {
				found = found.join(a.value(edge))
			}
		}
	case *ssa.ChangeType:
		return a.value(v.X)
	case *ssa.Convert:
		return a.value(v.X)
	case *ssa.ChangeInterface:
		return a.value(v.X)
	case *ssa.TypeAssert:
		if found = a.value(v.X); len(found.types) == 0 {
			found.types = a.handles(v.AssertedType)
		}
		return found
	case *ssa.MakeInterface:
		found = a.value(v.X)
		if isNamed(v.X.Type(), ginPath, "Context") && isNamed(v.Type(), "context", "Context") {
			found.labels = found.labels&^request | lost // it carries the attempt with gin.Engine.ContextWithFallback only
		}
		found.types, found.open = []types.Type{v.X.Type()}, false
	case *ssa.Extract:
		if _, ok := v.Tuple.(*ssa.Call); ok {
			return a.value(v.Tuple).field(v.Index)
		}
		return a.value(v.Tuple)
	case *ssa.Call:
		return a.call(v, a.mode)
	}
	return found
}

// field is what is known of a field. A *gorm.DB beside the request, in a context of the app's own, does not have the
// request's context.
func (a *activation) field(of ssa.Value, i int) value {
	whole, field := a.value(of), fieldOf(of.Type(), i)
	if isNamed(field.Type(), gormPath, "DB") {
		whole.labels &^= request
	}
	found := whole.field(i).join(a.stored[field])
	if !found.known() && (types.IsInterface(field.Type()) || a.inApp(field.Type())) {
		found = found.join(a.madeAt(field.Type(), a.ofField(whole.origins, of.Type(), i)))
	}
	return found
}

// orMade is what is known of a variable that was set before the request.
func (a *activation) orMade(found value, v ssa.Value) value {
	if found.known() || !types.IsInterface(v.Type()) && !a.inApp(v.Type()) {
		return found
	}
	return found.join(a.madeAt(v.Type(), a.sources(v, nil)))
}

// inApp reports whether a type, or what it points to, is one of the app.
func (p *program) inApp(t types.Type) bool {
	name := namedOf(t)
	return name != nil && p.ofApp(name.Pkg())
}

// handles are the types of a value that comes from another module: see value.types.
func (p *program) handles(t types.Type) []types.Type {
	if p.isHandle(t) {
		return []types.Type{t}
	}
	return nil
}

// cell is what is stored at an address of this function.
func (a *activation) cell(addr ssa.Value) (found value) {
	for _, ref := range *addr.Referrers() {
		switch ref := ref.(type) {
		case *ssa.Store:
			if ref.Addr == addr && !a.dead(ref.Block()) {
				found = found.join(a.value(ref.Val))
			}
		case *ssa.FieldAddr:
			if in := a.cell(ref); in.hash() != 0 {
				found = found.join(value{fields: map[int]value{ref.Field: in}})
			}
		case *ssa.IndexAddr:
			found = found.join(a.cell(ref))
		}
	}
	return found
}

// store keeps what is stored in a field or in a variable of another function.
func (a *activation) store(s *ssa.Store) {
	var to any
	switch addr := s.Addr.(type) {
	case *ssa.FieldAddr:
		if _, own := addr.X.(*ssa.Alloc); own {
			return
		}
		to = fieldOf(addr.X.Type(), addr.Field)
	case *ssa.FreeVar:
		to = variable(a.program, addr)
	default:
		return
	}
	v := a.value(s.Val)
	v.labels &^= readSQL | writeSQL
	v.tables = nil
	known := a.stored[to]
	if joined := known.join(v); joined.hash() != known.hash() {
		a.stored[to], a.changed = joined, true
	}
}

// variable is what a free variable stands for in the function that has made it.
func variable(p *program, v ssa.Value) any {
	for {
		free, ok := v.(*ssa.FreeVar)
		if !ok || len(p.closures[free.Parent()]) == 0 {
			return v
		}
		v = p.closures[free.Parent()][0].Bindings[slices.Index(free.Parent().FreeVars, free)]
	}
}

// call returns what a call returns, and reports what it does.
func (a *activation) call(site ssa.CallInstruction, mode mode) value {
	before := a.at
	defer func() { a.at = before }()
	a.at = cmp.Or(site.Pos(), a.at)
	common := site.Common()
	var args []value
	if common.IsInvoke() {
		args = append(args, a.value(common.Value))
	}
	for _, arg := range common.Args {
		args = append(args, a.value(arg))
	}
	if builtin, ok := common.Value.(*ssa.Builtin); ok {
		var all value
		if builtin.Name() == "append" {
			for _, arg := range args {
				all = all.join(arg)
			}
		}
		return all
	}
	var targets []closure
	if !common.IsInvoke() {
		targets = a.value(common.Value).functions
	}
	known, foreign := a.targets(site)
	if common.IsInvoke() && !args[0].open && len(args[0].types) > 0 {
		known, foreign = a.methods(args[0].types, common.Method)
	}
	if len(targets) == 0 {
		for _, f := range known {
			c := closureOf(f, nil)
			for _, made := range a.closures[f] { // it was kept in a field or a map
				c, _ = a.madeBefore(source{value: made})
			}
			targets = append(targets, c)
		}
	}
	var result value
	for _, c := range targets {
		if len(c.function.Blocks) > 0 {
			result = result.join(a.into(site, c, args, mode))
		}
	}
	if foreign {
		result = result.join(a.foreign(site, args, mode))
	}
	return result
}

// into walks a function that a call reaches.
func (a *activation) into(site ssa.CallInstruction, c closure, args []value, mode mode) value {
	inner := a.walk.enter(c, args, mode)
	a.invocation.steps = append(a.invocation.steps, step{at: site, inner: inner})
	inner.callers = append(inner.callers, caller{a.invocation, site})
	return inner.result
}

// methods are those of the types that an interface holds.
func (p *program) methods(of []types.Type, method *types.Func) (targets []*ssa.Function, foreign bool) {
	for _, t := range of {
		if p.ssa.MethodSets.MethodSet(t).Lookup(method.Pkg(), method.Name()) == nil {
			continue // it was asked for another interface
		}
		if f := p.ssa.LookupMethod(t, method.Pkg(), method.Name()); f != nil && len(f.Blocks) > 0 {
			targets = append(targets, f)
		} else {
			foreign = true
		}
	}
	return targets, foreign
}
