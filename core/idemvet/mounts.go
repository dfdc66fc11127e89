package main

import (
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strings"
)

// mount is a route that a function puts on a router that its caller gives to it.
type mount struct {
	Router       origin // which parameter is the router
	Method, Path string
	Handlers     summary
}

// router is what is known of a router, or of a group of its routes, at some place.
type router struct {
	guarded bool
	prefix  string
	param   origin // stray: it is made in this function
}

// mounter finds the routes of one function.
type mounter struct {
	*summaries
	sum     *summary
	locals  locals
	routers map[types.Object]router
	reading map[types.Object]bool // variables whose values are being read
	guarded func(at ast.Node, m mount)
}

// read reads the routes in the order of the source.
func (m *mounter) read(body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if o := objectOf(m.pass, left); o != nil && i < len(n.Rhs) && m.isRouter(n.Rhs[i]) {
					m.routers[o] = m.router(n.Rhs[i])
				}
			}
		case *ast.CallExpr:
			m.call(n)
		}
		return true
	})
}

func (m *mounter) isRouter(e ast.Expr) bool {
	t := m.pass.TypesInfo.TypeOf(e)
	for path, names := range routerTypes {
		for _, name := range names {
			if t != nil && named(t, path, name) {
				return true
			}
		}
	}
	return false
}

// router returns what is known of an expression that is a router.
func (m *mounter) router(e ast.Expr) router {
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		return m.made(call)
	}
	o := objectOf(m.pass, e)
	if r, ok := m.routers[o]; ok {
		return r
	}
	if param, ok := m.locals.params[o]; ok {
		return router{param: param}
	}
	return router{param: stray}
}

// made returns what is known of the router that a call returns: a group, or the router that Use or With was called on.
func (m *mounter) made(call *ast.CallExpr) router {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || !m.isRouter(sel.X) {
		return router{param: stray}
	}
	r := m.router(sel.X)
	r.guarded = r.guarded || m.guards(call.Args)
	if name := sel.Sel.Name; (name == "Group" || name == "Route") && len(call.Args) > 0 && m.isText(call.Args[0]) {
		r.prefix = join(r.prefix, m.text(call.Args[0]))
	}
	return r
}

// guards reports whether the middleware of the library is among the arguments, or around them.
func (m *mounter) guards(args []ast.Expr) bool {
	return slices.ContainsFunc(args, func(arg ast.Expr) bool {
		if call, ok := ast.Unparen(arg).(*ast.CallExpr); ok {
			return m.isGuard(call) || m.guards([]ast.Expr{call.Fun}) || m.guards(call.Args)
		}
		id, ok := ast.Unparen(arg).(*ast.Ident)
		guarded := false
		if ok {
			m.eachValue(m.pass.TypesInfo.ObjectOf(id), func(e ast.Expr) { guarded = guarded || m.guards([]ast.Expr{e}) })
		}
		return guarded
	})
}

// eachValue calls read with what a variable is given in this function, but not again within read: h = wrap(h) has an end.
func (m *mounter) eachValue(o types.Object, read func(e ast.Expr)) {
	if m.reading[o] {
		return
	}
	m.reading[o] = true
	for _, value := range m.locals.values[o] {
		read(value)
	}
	delete(m.reading, o)
}

func (m *mounter) isGuard(call *ast.CallExpr) bool {
	f := callee(m.pass, call)
	return slices.ContainsFunc(adapters, func(path string) bool { return is(f, path, "Idempotent", "Interceptor") })
}

func (m *mounter) isText(e ast.Expr) bool {
	b, ok := m.pass.TypesInfo.TypeOf(e).Underlying().(*types.Basic)
	return ok && b.Info()&types.IsString != 0
}

func (m *mounter) text(e ast.Expr) string {
	if v := m.pass.TypesInfo.Types[e].Value; v != nil && v.Kind() == constant.String {
		return constant.StringVal(v)
	}
	return "?"
}

func (m *mounter) call(call *ast.CallExpr) {
	f := callee(m.pass, call)
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if f != nil && ok && m.isRouter(sel.X) {
		m.routerCall(f.Name(), call, sel.X)
		return
	}
	for _, mounted := range m.of(f).Mounts {
		if int(mounted.Router) < len(call.Args) {
			m.mount(call, m.router(call.Args[mounted.Router]), mounted)
		}
	}
}

// routerCall reads a call of a router's method.
func (m *mounter) routerCall(name string, call *ast.CallExpr, on ast.Expr) {
	args := call.Args
	if name == "Use" {
		if o := objectOf(m.pass, on); o != nil && m.guards(args) {
			r := m.router(on)
			r.guarded = true
			m.routers[o] = r
		}
		return
	}
	if len(args) == 0 {
		return
	}
	if name == "Group" || name == "Route" {
		m.lendRouter(call, args[len(args)-1])
		return
	}
	methods, path, handlers := m.route(name, args)
	if len(handlers) == 0 {
		return
	}
	r := m.router(on)
	r.guarded = r.guarded || m.guards(handlers)
	var does summary
	for _, arg := range handlers {
		m.handler(&does, arg)
	}
	for _, method := range methods {
		m.mount(handlers[0], r, mount{Method: method, Path: path, Handlers: does})
	}
}

// lendRouter reads chi's r.Group(func(r chi.Router) { ... }) and r.Route: the function is given a router.
func (m *mounter) lendRouter(call *ast.CallExpr, to ast.Expr) {
	if lit, ok := ast.Unparen(to).(*ast.FuncLit); ok {
		for _, field := range lit.Type.Params.List {
			for _, name := range field.Names {
				m.routers[m.pass.TypesInfo.Defs[name]] = m.made(call)
			}
		}
		return
	}
	if f, ok := objectOf(m.pass, to).(*types.Func); ok {
		for _, mounted := range m.of(f.Origin()).Mounts {
			m.mount(call, m.made(call), mounted)
		}
	}
}

// route returns the unsafe methods, the path and the handlers of a route that a router's method adds. Without handlers it
// adds none.
func (m *mounter) route(name string, args []ast.Expr) (methods []string, path string, handlers []ast.Expr) {
	method := strings.ToUpper(name) // POST, and chi's Post
	switch name {
	case "Add", "Method", "MethodFunc": // the method comes first
		method, args = m.text(args[0]), args[1:]
	case "Handle", "HandleFunc":
		if len(args) == 2 { // "POST /payments", or a path for each method
			first, rest, ok := strings.Cut(m.text(args[0]), " ")
			if !ok {
				return unsafeMethods, first, args[1:]
			}
			method, path = first, strings.TrimLeft(rest, " \t")
		} else { // Gin's: the method comes first
			method, args = m.text(args[0]), args[1:]
		}
	}
	if len(args) < 2 || !slices.Contains(unsafeMethods, method) {
		return nil, "", nil
	}
	if path == "" {
		path = m.text(args[0])
	}
	return []string{method}, path, args[1:]
}

// handler adds what a handler does: a function, a method, a literal, a value with ServeHTTP, or what a function makes of
// other handlers.
func (m *mounter) handler(sum *summary, e ast.Expr) {
	if f := m.serveHTTP(e); f != nil {
		m.does(sum, f)
		return
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		m.readBody(sum, e.Body, m.locals)
	case *ast.CallExpr:
		if !m.isGuard(e) {
			m.readCall(sum, e, m.locals)
			for _, arg := range e.Args {
				m.handler(sum, arg)
			}
		}
	case *ast.Ident, *ast.SelectorExpr:
		o := objectOf(m.pass, e)
		if f, ok := o.(*types.Func); ok {
			m.does(sum, f)
			return
		}
		if _, ok := o.(*types.Var); ok {
			m.eachValue(o, func(e ast.Expr) { m.handler(sum, e) })
		}
	}
}

// does adds what a function does that nobody gives a transaction.
func (m *mounter) does(sum *summary, f *types.Func) {
	called := m.of(f.Origin())
	add(&sum.Stray, called.all()...)
	add(&sum.Dynamic, called.Dynamic...)
}

// serveHTTP returns the method of a handler that is a value of a type of the app; nil for other expressions.
func (m *mounter) serveHTTP(e ast.Expr) *types.Func {
	t := m.pass.TypesInfo.TypeOf(e)
	if t == nil || types.IsInterface(t) {
		return nil
	}
	o, _, _ := types.LookupFieldOrMethod(t, true, m.pass.Pkg, "ServeHTTP")
	f, ok := o.(*types.Func)
	if !ok || f.Pkg() == nil || f.Pkg().Path() == httpPath {
		return nil // http.HandlerFunc
	}
	return f
}

// mount gives a route to the check, or to the callers of this function if they decide about the guard.
func (m *mounter) mount(at ast.Node, r router, route mount) {
	route.Path = join(r.prefix, route.Path)
	switch {
	case r.guarded:
		m.guarded(at, route)
	case r.param != stray:
		route.Router = r.param
		if !slices.ContainsFunc(m.sum.Mounts, route.same) {
			m.sum.Mounts = append(m.sum.Mounts, route)
		}
	}
}

// join puts a slash between the parts where both have none, as Gin does.
func join(prefix, path string) string {
	if path == "" || strings.HasPrefix(path, "/") {
		return prefix + path
	}
	return strings.TrimSuffix(prefix, "/") + "/" + path
}

func (m mount) same(other mount) bool {
	return m.Router == other.Router && m.Method == other.Method && m.Path == other.Path
}
