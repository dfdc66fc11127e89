package main

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// frame is the way by which a function was reached. A nil frame stands for all ways.
type frame struct {
	function *ssa.Function
	call     ssa.CallInstruction // nil: nobody in the app calls the function
	caller   *frame
}

// frame returns the frame of a call. There is one for each, so that sources can be compared.
func (p *program) frame(f *ssa.Function, call ssa.CallInstruction, caller *frame) *frame {
	key := frame{f, call, caller}
	if p.frames[key] == nil {
		p.frames[key] = &key
	}
	return p.frames[key]
}

func (f *frame) depth() (n int) {
	for ; f != nil; f = f.caller {
		n++
	}
	return n
}

// site is the call of the function, if it is known.
func (f *frame) site() ssa.CallInstruction {
	if f == nil {
		return nil
	}
	return f.call
}

// source is where a value comes from: a constant, a function, what another module returns ...
type source struct {
	value ssa.Value
	at    *frame
}

// sources follows a value back through the app: variables, fields, parameters, results.
func (p *program) sources(v ssa.Value, at *frame) []source {
	f := flow{program: p, seen: map[source]bool{}}
	f.follow(v, at)
	return f.found
}

type flow struct {
	*program
	seen  map[source]bool
	found []source
}

const deepest = 16 // calls, behind each other, that values are followed through

func (f *flow) follow(v ssa.Value, at *frame) {
	if v == nil || f.seen[source{v, at}] || len(f.seen) > 5000 {
		return
	}
	f.seen[source{v, at}] = true
	switch v := v.(type) {
	case *ssa.Parameter:
		f.parameter(v, at)
		return
	case *ssa.FreeVar:
		f.freeVar(v, at)
		return
	case *ssa.Phi:
		for _, edge := range v.Edges {
			f.follow(edge, at)
		}
		return
	case *ssa.ChangeType:
		f.follow(v.X, at)
		return
	case *ssa.Convert:
		f.follow(v.X, at)
		return
	case *ssa.ChangeInterface:
		f.follow(v.X, at)
		return
	case *ssa.MakeInterface:
		f.follow(v.X, at)
		return
	case *ssa.TypeAssert:
		f.follow(v.X, at)
		return
	case *ssa.Extract:
		if call, ok := v.Tuple.(*ssa.Call); ok && f.result(call, v.Index, at) {
			return
		}
	case *ssa.Call:
		if f.result(v, 0, at) {
			return
		}
	case *ssa.UnOp:
		if v.Op == token.MUL && f.load(v.X, at) {
			return
		}
	case *ssa.Field:
		if f.field(v.X, v.Field, at) {
			return
		}
	case *ssa.FieldAddr: // gin.Engine embeds gin.RouterGroup
		if isNamed(v.Type(), ginPath, "RouterGroup") {
			f.follow(v.X, at)
			return
		}
	}
	f.found = append(f.found, source{v, at})
}

func (f *flow) parameter(v *ssa.Parameter, at *frame) {
	i := slices.Index(v.Parent().Params, v)
	if at != nil && at.function == v.Parent() && at.call != nil {
		f.follow(argument(at.call, i), at.caller)
		return
	}
	sites := f.callers[v.Parent()]
	if len(sites) == 0 || at != nil && at.function == v.Parent() {
		f.found = append(f.found, source{v, at})
	} else {
		for _, site := range sites {
			f.follow(argument(site, i), nil)
		}
	}
}

// argument is what a call gives to a parameter; the receiver is the first one.
func argument(site ssa.CallInstruction, i int) ssa.Value {
	args := site.Common().Args
	if site.Common().IsInvoke() {
		args = append([]ssa.Value{site.Common().Value}, args...)
	}
	if i < len(args) {
		return args[i]
	}
	return nil
}

func (f *flow) freeVar(v *ssa.FreeVar, at *frame) {
	i := slices.Index(v.Parent().FreeVars, v)
	for _, made := range f.closures[v.Parent()] {
		outer := at
		for outer != nil && outer.function != made.Parent() {
			outer = outer.caller
		}
		f.follow(made.Bindings[i], outer)
	}
}

func (f *flow) result(call *ssa.Call, i int, at *frame) (known bool) {
	targets, _ := f.targets(call)
	if at.depth() > deepest {
		return false
	}
	for _, to := range targets {
		inner := f.frame(to, call, at)
		eachInstruction(to, func(in ssa.Instruction) {
			if ret, ok := in.(*ssa.Return); ok && i < len(ret.Results) {
				f.follow(ret.Results[i], inner)
			}
		})
	}
	return len(targets) > 0
}

// load follows what is stored at an address.
func (f *flow) load(addr ssa.Value, at *frame) (known bool) {
	switch addr := addr.(type) {
	case *ssa.Global:
		for _, store := range f.globals[addr] {
			f.follow(store.Val, nil)
			known = true
		}
	case *ssa.Alloc:
		return f.cell(addr, at)
	case *ssa.FreeVar:
		g := flow{program: f.program, seen: map[source]bool{}}
		g.freeVar(addr, at)
		for _, from := range g.found {
			if cell, ok := from.value.(*ssa.Alloc); ok {
				known = f.cell(cell, from.at) || known
			}
		}
	case *ssa.FieldAddr:
		return f.field(addr.X, addr.Field, at)
	}
	return known
}

// cell follows what is stored in a variable, by its function and by the closures that it is in.
func (f *flow) cell(cell ssa.Value, at *frame) (known bool) {
	for _, ref := range *cell.Referrers() {
		switch ref := ref.(type) {
		case *ssa.Store:
			if ref.Addr == cell {
				f.follow(ref.Val, at)
				known = true
			}
		case *ssa.MakeClosure:
			if i := slices.Index(ref.Bindings, cell); i >= 0 {
				known = f.cell(ref.Fn.(*ssa.Function).FreeVars[i], nil) || known
			}
		}
	}
	if _, made := cell.(*ssa.Alloc); made && !known {
		f.found = append(f.found, source{cell, at}) // a literal, whose fields are stored one by one
	}
	return true
}

// field follows what is stored in a field: of this very value if its function has made it, else of all values of its type.
func (f *flow) field(base ssa.Value, i int, at *frame) (known bool) {
	field := fieldOf(base.Type(), i)
	if load, ok := base.(*ssa.UnOp); ok {
		base = load.X
	}
	var own []*ssa.Store
	for _, store := range f.fields[field] {
		if store.Addr.(*ssa.FieldAddr).X == base {
			own = append(own, store)
		}
	}
	if _, local := base.(*ssa.Alloc); !local || len(own) == 0 {
		own, at = f.fields[field], nil
	}
	for _, store := range own {
		f.follow(store.Val, at)
	}
	return len(own) > 0
}

// elements returns the values that a slice is made of: a literal, append, and what variables and functions keep.
func (p *program) elements(slice ssa.Value, at *frame) (all []source) {
	if p.reading[slice] { // all = append(all, one)
		return nil
	}
	p.reading[slice] = true
	defer delete(p.reading, slice)
	for _, from := range p.sources(slice, at) {
		switch v := from.value.(type) {
		case *ssa.Slice:
			cell, ok := v.X.(*ssa.Alloc)
			if !ok {
				all = append(all, p.elements(v.X, from.at)...)
				continue
			}
			for _, ref := range *cell.Referrers() {
				if element, ok := ref.(*ssa.IndexAddr); ok {
					for _, stored := range storedAt(element) {
						all = append(all, source{stored, from.at})
					}
				}
			}
		case *ssa.Call: // append(a, b...), slices.Concat(a, b)
			for _, arg := range v.Call.Args {
				all = append(all, p.elements(arg, from.at)...)
			}
		case *ssa.Const:
		default:
			if v != slice {
				all = append(all, source{v, from.at})
			}
		}
	}
	return all
}

// spread returns arguments, with the elements of those that are slices.
func (p *program) spread(args []ssa.Value, at *frame) (all []source) {
	for _, arg := range args {
		if _, ok := arg.Type().Underlying().(*types.Slice); ok {
			all = append(all, p.elements(arg, at)...)
		} else {
			all = append(all, source{arg, at})
		}
	}
	return all
}
