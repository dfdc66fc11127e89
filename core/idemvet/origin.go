package main

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// origin says where a *gorm.DB, or a value that holds one, comes from.
type origin int

// An origin from receiver on is the function's receiver (-1) or its parameter with that number: the caller decides.
const (
	stray    origin = -3 // neither from the attempt nor with a context
	bound    origin = -2 // from the attempt, or with a context: then the write guard sees the write at run time
	receiver origin = -1
)

// locals knows what the variables of one function are given.
type locals struct {
	pass   *analysis.Pass
	params map[types.Object]origin
	values map[types.Object][]ast.Expr
	lends  map[types.Object]*ast.CallExpr // a function literal's *gorm.DB parameter: the call that the literal is given to
}

// eachFunction calls visit for the body of every function declaration, with the literals in it.
func eachFunction(pass *analysis.Pass, visit func(body *ast.BlockStmt, locals locals)) {
	for _, file := range pass.Files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				visit(f.Body, localsOf(pass, f))
			}
		}
	}
}

func localsOf(pass *analysis.Pass, f *ast.FuncDecl) locals {
	l := locals{pass, map[types.Object]origin{}, map[types.Object][]ast.Expr{}, map[types.Object]*ast.CallExpr{}}
	if f.Recv != nil {
		l.number(f.Recv, receiver)
	}
	l.number(f.Type.Params, 0)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				l.assign(left, n.Rhs, i)
			}
		case *ast.ValueSpec:
			for i, left := range n.Names {
				l.assign(left, n.Values, i)
			}
		case *ast.CallExpr:
			for _, arg := range n.Args {
				if lit, ok := ast.Unparen(arg).(*ast.FuncLit); ok {
					l.lend(lit, n)
				}
			}
		}
		return true
	})
	return l
}

func (l locals) number(fields *ast.FieldList, n origin) {
	for _, field := range fields.List {
		for _, name := range field.Names {
			l.params[l.pass.TypesInfo.Defs[name]] = n
			n++
		}
		if len(field.Names) == 0 {
			n++
		}
	}
}

func (l locals) assign(left ast.Expr, right []ast.Expr, i int) {
	id, ok := left.(*ast.Ident)
	if !ok || len(right) == 0 {
		return
	}
	o := l.pass.TypesInfo.ObjectOf(id)
	l.values[o] = append(l.values[o], right[min(i, len(right)-1)])
}

func (l locals) lend(lit *ast.FuncLit, call *ast.CallExpr) {
	for _, field := range lit.Type.Params.List {
		for _, name := range field.Names {
			if o := l.pass.TypesInfo.Defs[name]; o != nil && isDB(o.Type()) {
				l.lends[o] = call
			}
		}
	}
}

// of returns the origin of an expression.
func (l locals) of(e ast.Expr) origin { return l.find(e, map[types.Object]bool{}) }

func (l locals) find(e ast.Expr, seen map[types.Object]bool) origin {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return l.variable(l.pass.TypesInfo.ObjectOf(e), seen)
	case *ast.SelectorExpr:
		return l.find(e.X, seen)
	case *ast.StarExpr:
		return l.find(e.X, seen)
	case *ast.UnaryExpr:
		return l.find(e.X, seen)
	case *ast.IndexExpr:
		return l.find(e.X, seen)
	case *ast.TypeAssertExpr:
		return l.find(e.X, seen)
	case *ast.CompositeLit:
		return l.best(e.Elts, seen)
	case *ast.KeyValueExpr:
		return l.find(e.Value, seen)
	case *ast.CallExpr:
		return l.call(e, seen)
	}
	return stray
}

func (l locals) variable(o types.Object, seen map[types.Object]bool) origin {
	if seen[o] {
		return stray
	}
	seen[o] = true
	if n, ok := l.params[o]; ok {
		return n
	}
	if call, ok := l.lends[o]; ok {
		return l.lent(call, seen)
	}
	return l.best(l.values[o], seen)
}

// lent is the origin of what a call gives to its function literal: db.Transaction gives db's, Step the attempt's. Of other
// calls nothing is known, and nothing is reported.
func (l locals) lent(call *ast.CallExpr, seen map[types.Object]bool) origin {
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && isDB(l.pass.TypesInfo.TypeOf(sel.X)) {
		return l.find(sel.X, seen)
	}
	return bound
}

// call is the origin of what a call returns. A function that is given a context is taken to use it.
func (l locals) call(call *ast.CallExpr, seen map[types.Object]bool) origin {
	f := callee(l.pass, call)
	if is(f, storePath, "Tx", "TxFrom", "SQLTx") {
		return bound
	}
	for _, arg := range call.Args {
		if l.binds(arg, is(f, gormPath, "WithContext")) {
			return bound
		}
	}
	sel, method := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if method && isDB(l.pass.TypesInfo.TypeOf(sel.X)) { // db.Model(...).Where(...)
		return l.find(sel.X, seen)
	}
	holders := slices.DeleteFunc(slices.Clone(call.Args), func(arg ast.Expr) bool {
		_, basic := l.pass.TypesInfo.TypeOf(arg).Underlying().(*types.Basic)
		return basic
	})
	if from := l.best(holders, seen); from != stray || !method {
		return from
	}
	return l.find(sel.X, seen)
}

// best is the best origin among the expressions that can hold a *gorm.DB: bound, else a parameter, else stray.
func (l locals) best(expressions []ast.Expr, seen map[types.Object]bool) origin {
	best := stray
	for _, e := range expressions {
		switch o := l.find(e, seen); {
		case o == bound:
			return bound
		case o != stray && best == stray:
			best = o
		}
	}
	return best
}

// fromTx reports whether a variable holds the transaction of an attempt itself.
func (l locals) fromTx(o types.Object) bool {
	if o == nil || !isDB(o.Type()) {
		return false
	}
	if call, ok := l.lends[o]; ok {
		return is(callee(l.pass, call), storePath, "Step", "StepDo")
	}
	for _, value := range l.values[o] {
		call, ok := ast.Unparen(value).(*ast.CallExpr)
		for ok { // gormstore.Tx(ctx).Debug().Model(...)
			if is(callee(l.pass, call), storePath, "Tx", "TxFrom") {
				return true
			}
			sel, selector := ast.Unparen(call.Fun).(*ast.SelectorExpr)
			if !selector {
				break
			}
			call, ok = ast.Unparen(sel.X).(*ast.CallExpr)
		}
	}
	return false
}
