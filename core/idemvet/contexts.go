package main

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// binds reports whether an argument of a call that returns a *gorm.DB, or a value that holds one, gives it the request's
// context. A function of the app that is given a *gin.Context is taken to use c.Request.Context(); GORM uses it as it is.
func (l locals) binds(arg ast.Expr, toGORM bool) bool {
	if ctx := sessionContext(l.pass, arg); ctx != nil {
		return l.carries(ctx, true, map[types.Object]bool{})
	}
	t := l.pass.TypesInfo.TypeOf(arg)
	switch {
	case isContext(t), named(t, ginPath, "Context"):
		return l.carries(arg, toGORM, map[types.Object]bool{})
	default:
		return named(t, httpPath, "Request") || named(t, echoPath, "Context") || named(t, echo5Path, "Context")
	}
}

// carries reports whether a context can be the request's. context.Background(), context.TODO() and what is derived from
// them cannot. With asIs, neither can a *gin.Context: it carries the attempt with gin.Engine.ContextWithFallback only, and
// attemptctx reports it in any case. Of parameters, fields and other functions nothing is known, and nothing is reported.
func (l locals) carries(ctx ast.Expr, asIs bool, seen map[types.Object]bool) bool {
	ctx = ast.Unparen(ctx)
	if named(l.pass.TypesInfo.TypeOf(ctx), ginPath, "Context") {
		return !asIs
	}
	switch e := ctx.(type) {
	case *ast.CallExpr:
		switch f := callee(l.pass, e); {
		case is(f, "context", "Background", "TODO"):
			return false
		case is(f, "context", "WithCancel", "WithCancelCause", "WithDeadline", "WithDeadlineCause", "WithTimeout",
			"WithTimeoutCause", "WithValue", "WithoutCancel"):
			return l.carries(e.Args[0], asIs, seen)
		}
	case *ast.Ident:
		return l.holdsCarrier(l.pass.TypesInfo.ObjectOf(e), asIs, seen)
	}
	return true
}

// holdsCarrier reports whether one of the values that a variable is given in this function can be the request's context.
func (l locals) holdsCarrier(o types.Object, asIs bool, seen map[types.Object]bool) bool {
	if _, param := l.params[o]; param || len(l.values[o]) == 0 {
		return true
	}
	if seen[o] { // ctx = context.WithValue(ctx, ...): its other values decide
		return false
	}
	seen[o] = true
	for _, value := range l.values[o] {
		if l.carries(value, asIs, seen) {
			return true
		}
	}
	return false
}

// sessionContext returns the context in &gorm.Session{Context: ...}; nil for other expressions.
func sessionContext(pass *analysis.Pass, e ast.Expr) ast.Expr {
	if u, ok := ast.Unparen(e).(*ast.UnaryExpr); ok {
		e = u.X
	}
	lit, ok := ast.Unparen(e).(*ast.CompositeLit)
	if !ok || !named(pass.TypesInfo.TypeOf(lit), gormPath, "Session") {
		return nil
	}
	for _, element := range lit.Elts {
		kv, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if name, ok := kv.Key.(*ast.Ident); ok && name.Name == "Context" {
			return kv.Value
		}
	}
	return nil
}
