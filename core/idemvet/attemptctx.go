package main

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

var attemptCtx = &analysis.Analyzer{
	Name: "attemptctx",
	Doc:  "finds other contexts where the context of the attempt belongs",
	Run:  runAttemptCtx,
}

// asksAttempt are the functions that look for the attempt in their context.
var asksAttempt = map[string][]string{
	storePath: {"Tx", "TxFrom", "SQLTx", "Step", "StepDo"},
	corePath: {"Call", "CallDo", "Operation", "CommandHashOf", "RecoveryOf", "NotApplied", "KeepRows", "DeriveCall",
		"DeriveEvent", "InShadow"},
}

func runAttemptCtx(pass *analysis.Pass) (any, error) {
	r := newReporter(pass)
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			f := callee(pass, call)
			for path, names := range asksAttempt {
				if is(f, path, names...) {
					reportContext(r, f.Name(), call.Args[0])
				}
			}
			return true
		})
	}
	return nil, nil
}

func reportContext(r reporter, function string, ctx ast.Expr) {
	if call, ok := ast.Unparen(ctx).(*ast.CallExpr); ok {
		if f := callee(r.pass, call); is(f, "context", "Background", "TODO") {
			r.reportf(ctx, "%s is given context.%s(), which belongs to no attempt: pass the request's context", function, f.Name())
		}
		return
	}
	if named(r.pass.TypesInfo.TypeOf(ctx), ginPath, "Context") {
		r.reportf(ctx, "%s is given a *gin.Context, which does not carry the attempt: pass c.Request.Context()", function)
	}
}
