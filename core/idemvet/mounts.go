package main

import (
	"go/ast"
	"go/constant"
	"go/types"
	"net/http"
	"slices"
	"strings"
)

// mount is a route that a function puts on a router that its caller gives to it.
type mount struct {
	Router       origin // which parameter is the router
	Method, Path string
	Handlers     summary
}

// router is what is known of a gin.IRouter, or of an Echo or its groups, at some place.
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
	for _, name := range []string{"Engine", "RouterGroup", "IRouter", "IRoutes"} {
		if t != nil && named(t, ginPath, name) {
			return true
		}
	}
	return t != nil && (named(t, echoPath, "Echo") || named(t, echoPath, "Group"))
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

// made returns what is known of the router that a call returns: a group, or the router that Use was called on.
func (m *mounter) made(call *ast.CallExpr) router {
	f := callee(m.pass, call)
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || !is(f, ginPath, "Group", "Use") && !is(f, echoPath, "Group") || len(call.Args) == 0 {
		return router{param: stray}
	}
	r := m.router(sel.X)
	r.guarded = r.guarded || m.guards(call.Args)
	if f.Name() == "Group" {
		r.prefix = join(r.prefix, m.text(call.Args[0]))
	}
	return r
}

// guards reports whether the middleware of the library is among the arguments.
func (m *mounter) guards(args []ast.Expr) bool {
	return slices.ContainsFunc(args, func(arg ast.Expr) bool {
		if call, ok := ast.Unparen(arg).(*ast.CallExpr); ok {
			f := callee(m.pass, call)
			return is(f, ginidem, "Idempotent", "Interceptor") || is(f, echoidem, "Idempotent", "Interceptor")
		}
		id, ok := ast.Unparen(arg).(*ast.Ident)
		return ok && m.guards(slices.DeleteFunc(slices.Clone(m.locals.values[m.pass.TypesInfo.ObjectOf(id)]),
			func(e ast.Expr) bool { _, ok := ast.Unparen(e).(*ast.CallExpr); return !ok }))
	})
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
		m.routerCall(f.Name(), sel.X, call.Args)
		return
	}
	for _, mounted := range m.of(f).Mounts {
		if int(mounted.Router) < len(call.Args) {
			m.mount(call, m.router(call.Args[mounted.Router]), mounted)
		}
	}
}

// routerCall reads a call of a router's method.
func (m *mounter) routerCall(name string, on ast.Expr, args []ast.Expr) {
	switch name {
	case "Use":
		if o := objectOf(m.pass, on); o != nil && m.guards(args) {
			r := m.router(on)
			r.guarded = true
			m.routers[o] = r
		}
		return
	case "Handle", "Add": // the method comes first
		if len(args) < 2 {
			return
		}
		name, args = m.text(args[0]), args[1:]
	}
	switch name {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return
	}
	if len(args) < 2 {
		return
	}
	r := m.router(on)
	r.guarded = r.guarded || m.guards(args[1:])
	var handlers summary
	for _, arg := range args[1:] {
		m.handler(&handlers, arg)
	}
	m.mount(args[1], r, mount{Method: name, Path: m.text(args[0]), Handlers: handlers})
}

// handler adds what a handler does: a function, a method, a literal, or what a function makes of other handlers.
func (m *mounter) handler(sum *summary, e ast.Expr) {
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		m.readBody(sum, e.Body, m.locals)
	case *ast.CallExpr:
		if !m.guards([]ast.Expr{e}) {
			m.readCall(sum, e, m.locals)
			for _, arg := range e.Args {
				m.handler(sum, arg)
			}
		}
	case *ast.Ident, *ast.SelectorExpr:
		o := objectOf(m.pass, e)
		if f, ok := o.(*types.Func); ok {
			called := m.of(f.Origin())
			add(&sum.Stray, called.all()...)
			add(&sum.Dynamic, called.Dynamic...)
			return
		}
		if _, ok := o.(*types.Var); ok {
			for _, value := range m.locals.values[o] {
				if _, again := value.(*ast.Ident); !again {
					m.handler(sum, value)
				}
			}
		}
	}
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
