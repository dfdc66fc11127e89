package main

import (
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// route is an unsafe route behind the guard, and what runs behind it: middleware, and the handler.
type route struct {
	method, path string
	call         ssa.CallInstruction
	behind       []source
}

func (r route) String() string { return r.method + " " + r.path }

// router is what is known of a router, or of a group of its routes, at some place.
type router struct {
	prefix string
	chain  []source // the middleware of its routes
}

type mounts struct {
	*program
	uses map[ssa.Value][]*ssa.Call // calls of Use, by the router that was made there
}

// routes returns the guarded routes of the app, each one once for each way by which it is mounted.
func (p *program) routes() (found []route) {
	m := mounts{p, map[ssa.Value][]*ssa.Call{}}
	var calls []*ssa.Call
	for _, f := range p.functions {
		eachInstruction(f, func(i ssa.Instruction) {
			call, ok := i.(*ssa.Call)
			if !ok || !m.ofRouter(call) {
				return
			}
			if name := callee(call).Name(); name == "Use" {
				for _, made := range m.sources(argument(call, 0), nil) {
					m.uses[made.value] = append(m.uses[made.value], call)
				}
			} else if name != "Group" && name != "Route" && name != "With" {
				calls = append(calls, call)
			}
		})
	}
	for _, call := range calls {
		for _, at := range m.ways(call.Parent(), 0) {
			for _, r := range m.mounted(call, at) {
				if !slices.ContainsFunc(found, func(other route) bool { return other.call == r.call && other.String() == r.String() }) {
					found = append(found, r)
				}
			}
		}
	}
	return found
}

var (
	handlers = map[string][]string{ginPath: {"HandlerFunc"}, echoPath: {"HandlerFunc", "MiddlewareFunc"},
		echo5Path: {"HandlerFunc", "MiddlewareFunc"}, httpPath: {"Handler", "HandlerFunc", "ResponseWriter"},
		libraryPath + "/core/httpidem": {"Middleware"}, "github.com/go-chi/chi/v5": {"Router"}}
	verbs = []string{"Use", "Group", "Route", "With", "Handle", "HandleFunc", "Method", "MethodFunc", "Add", "Any", "Match",
		"POST", "PUT", "PATCH", "DELETE", "Post", "Put", "Patch", "Delete"}
)

// ofRouter reports whether a call is one of a router's method that adds routes, groups or middleware. It is known by what it
// takes, so that an app may have interfaces of its own for its routers. A method that the app has written is not the end: it
// calls a router's.
func (m mounts) ofRouter(call *ssa.Call) bool {
	f := callee(call)
	if f == nil || f.Signature().Recv() == nil || !slices.Contains(verbs, f.Name()) {
		return false
	}
	if _, foreign := m.targets(call); !foreign {
		return false
	}
	params := f.Signature().Params()
	return params.Len() > 0 && takesHandler(params.At(params.Len()-1).Type(), 0) ||
		params.Len() > 1 && takesHandler(params.At(params.Len()-2).Type(), 0) // Echo: the handler, and its middleware
}

func takesHandler(t types.Type, depth int) bool {
	for path, names := range handlers {
		if isNamed(t, path, names...) {
			return true
		}
	}
	switch t := types.Unalias(t).(type) {
	case *types.Slice:
		return takesHandler(t.Elem(), depth)
	case *types.Signature: // func(http.ResponseWriter, *http.Request), func(http.Handler) http.Handler, func(chi.Router)
		return depth == 0 && t.Params().Len() > 0 && takesHandler(t.Params().At(0).Type(), 1)
	}
	return false
}

const mostWays = 64

// ways returns the ways by which the app calls a function. A route that a helper adds is another route for each of them.
func (m mounts) ways(f *ssa.Function, depth int) (all []*frame) {
	for _, site := range m.callers[f] {
		if from := site.Parent(); depth > 8 || from == f ||
			from.Synthetic != "" && len(m.callers[from]) == 0 && m.lent[from] == nil {
			continue // a method value that nobody uses
		}
		if len(all) > mostWays {
			break
		}
		for _, caller := range m.ways(site.Parent(), depth+1) {
			all = append(all, &frame{f, site, caller})
		}
	}
	if len(all) == 0 {
		return []*frame{{function: f}}
	}
	return all
}

// mounted returns the guarded routes that a call adds.
func (m mounts) mounted(call *ssa.Call, at *frame) (added []route) {
	methods, path, rest := m.read(callee(call).Name(), given(call), at)
	if len(methods) == 0 {
		return nil
	}
	own := m.spread(rest, at)
	if isEcho(callee(call)) && len(own) > 0 { // the handler comes first there, and runs last
		own = append(own[1:], own[0])
	}
	for _, r := range m.routers(argument(call, 0), at, call) {
		chain := append(slices.Clone(r.chain), own...)
		for i, one := range chain {
			inner, guarded := m.guards(one, 0)
			if !guarded {
				continue
			}
			for _, method := range methods {
				added = append(added, route{method, join(r.prefix, path), call, append(inner, chain[i+1:]...)})
			}
			break
		}
	}
	return added
}

func isEcho(f *types.Func) bool {
	last := f.Signature().Params()
	t := last.At(last.Len() - 1).Type()
	if s, ok := t.(*types.Slice); ok {
		t = s.Elem()
	}
	return isNamed(t, echoPath, "MiddlewareFunc") || isNamed(t, echo5Path, "MiddlewareFunc")
}

// read reads a call that adds a route: its unsafe methods, its path, and its handlers.
func (m mounts) read(name string, args []ssa.Value, at *frame) (methods []string, path string, rest []ssa.Value) {
	if len(args) < 2 {
		return nil, "", nil
	}
	switch method := strings.ToUpper(name); {
	case slices.Contains(unsafeMethods, method): // POST, and chi's Post
		return []string{method}, m.text(args[0], at), args[1:]
	case name == "Any":
		return unsafeMethods, m.text(args[0], at), args[1:]
	case name == "Match":
		for _, one := range m.elements(args[0], at) {
			methods = append(methods, m.text(one.value, one.at))
		}
		args = args[1:]
	case len(args) > 2: // Gin's Handle, Echo's Add, chi's Method: the method comes first
		methods, args = []string{m.text(args[0], at)}, args[1:]
	default: // "POST /payments", or a path for each method
		first, path, ok := strings.Cut(m.text(args[0], at), " ")
		if !ok {
			return unsafeMethods, first, args[1:]
		}
		methods, args = []string{first}, args[1:]
		return keepUnsafe(methods), strings.TrimLeft(path, " \t"), args
	}
	if len(args) < 2 {
		return nil, "", nil
	}
	return keepUnsafe(methods), m.text(args[0], at), args[1:]
}

func keepUnsafe(methods []string) []string {
	return slices.DeleteFunc(methods, func(method string) bool {
		return method != "?" && !slices.Contains(unsafeMethods, method)
	})
}

// sum is a text that is being read.
type sum struct {
	value ssa.Value
	site  ssa.CallInstruction
	grows bool // it is a part of itself: prefix += path
}

// text returns the text of a constant, "?" if it is not known. It is a part of the sums within.
func (m mounts) text(v ssa.Value, at *frame, within ...*sum) string {
	if op, ok := v.(*ssa.BinOp); ok {
		for _, s := range within {
			if s.value == v && s.site == at.site() {
				s.grows = true
				return "?"
			}
		}
		s := &sum{value: v, site: at.site()}
		within = append(within, s)
		if text := m.text(op.X, at, within...) + m.text(op.Y, at, within...); !s.grows {
			return text
		}
		return "?"
	}
	from := m.sources(v, at)
	if len(from) != 1 {
		return "?"
	}
	switch v := from[0].value.(type) {
	case *ssa.Const:
		if v.Value != nil && v.Value.Kind() == constant.String {
			return constant.StringVal(v.Value)
		}
	case *ssa.BinOp:
		return m.text(v, from[0].at, within...)
	}
	return "?"
}

// routers returns what is known of the routers that a value may be, where a route is added to it.
func (m mounts) routers(v ssa.Value, at *frame, before *ssa.Call) (all []router) {
	if at.depth() > deepest || m.reading[v] {
		return nil
	}
	m.reading[v] = true
	defer delete(m.reading, v)
	for _, from := range m.sources(v, at) {
		base := []router{{}}
		var call *ssa.Call
		switch v := from.value.(type) {
		case *ssa.Call:
			call = v
		case *ssa.Parameter: // chi's r.Route("/v1", func(r chi.Router) { ... })
			call = m.lent[v.Parent()]
		}
		if call != nil && m.ofRouter(call) {
			base = m.routers(argument(call, 0), from.at, call)
			for i := range base {
				base[i] = m.grouped(base[i], call, from.at)
			}
		}
		for _, r := range base {
			for _, use := range m.uses[from.value] {
				// In one function, Use counts for what comes behind it, and for its own result.
				if use.Parent() != before.Parent() || use.Pos() <= before.Pos() {
					r.chain = append(slices.Clone(r.chain), m.spread(given(use), nil)...)
				}
			}
			all = append(all, r)
		}
	}
	return all
}

// given are the arguments of a method.
func given(call *ssa.Call) []ssa.Value {
	if call.Call.IsInvoke() {
		return call.Call.Args
	}
	return call.Call.Args[1:]
}

// grouped adds what a call of Group, Route or With gives to the routes of the group.
func (m mounts) grouped(r router, call *ssa.Call, at *frame) router {
	name := callee(call).Name()
	if name == "Use" {
		return r // its middleware is that of the router that it was called on
	}
	for _, arg := range given(call) {
		switch t := arg.Type().Underlying().(type) {
		case *types.Basic:
			r.prefix = join(r.prefix, m.text(arg, at))
		case *types.Slice:
			r.chain = append(slices.Clone(r.chain), m.elements(arg, at)...)
		case *types.Signature:
			if name == "With" || t.Results().Len() > 0 {
				r.chain = append(slices.Clone(r.chain), source{arg, at})
			}
		}
	}
	return r
}

// guards reports whether a middleware or a handler is the guard or has it around it, and returns what is inside.
func (m mounts) guards(one source, depth int) (inner []source, guarded bool) {
	if depth > 8 || one.at.depth() > deepest {
		return nil, false
	}
	for _, from := range m.sources(one.value, one.at) {
		switch v := from.value.(type) {
		case *ssa.Call:
			if isGuard(callee(v)) {
				return nil, true
			}
			parts := m.spread(v.Call.Args, from.at) // gin.WrapH(h), alice.New(guard).Then(h)
			if v.Call.StaticCallee() == nil {
				parts = append(parts, source{v.Call.Value, from.at}) // guard(h)
			}
			around := false
			for _, part := range parts {
				more, ok := m.guards(part, depth+1)
				if inner = append(inner, more...); !ok {
					inner = append(inner, part)
				}
				around = around || ok
			}
			if around {
				return inner, true
			}
			inner = nil
		case *ssa.MakeClosure: // a function of the app around the guard
			for _, binding := range v.Bindings {
				if _, ok := m.guards(source{binding, from.at}, depth+1); ok {
					guarded = true
				}
			}
			if guarded {
				return []source{from}, true
			}
		case *ssa.Alloc: // a variable that a closure has
			for _, stored := range storedAt(v) {
				if more, ok := m.guards(source{stored, from.at}, depth+1); ok {
					inner, guarded = append(inner, more...), true
				}
			}
		}
	}
	return inner, guarded
}

// join puts a slash between the parts where both have none, as Gin does.
func join(prefix, path string) string {
	if path == "" || strings.HasPrefix(path, "/") && !strings.HasSuffix(prefix, "/") {
		return prefix + path
	}
	return strings.TrimSuffix(prefix, "/") + "/" + strings.TrimPrefix(path, "/")
}
