package main

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

var txGoroutine = &analysis.Analyzer{
	Name: "txgoroutine",
	Doc:  "finds goroutines that use the transaction of an attempt",
	Run:  runTxGoroutine,
}

func runTxGoroutine(pass *analysis.Pass) (any, error) {
	r := newReporter(pass)
	eachFunction(pass, func(body *ast.BlockStmt, locals locals) {
		ast.Inspect(body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				reportTx(r, locals, n.Call)
			case *ast.CallExpr:
				// errgroup.Group.Go, sync.WaitGroup.Go
				if f := callee(pass, n); is(f, "golang.org/x/sync/errgroup", "Go", "TryGo") || is(f, "sync", "Go") {
					reportTx(r, locals, n)
				}
			}
			return true
		})
	})
	return nil, nil
}

// reportTx reports the first use of an attempt's transaction in what a goroutine runs.
func reportTx(r reporter, locals locals, call *ast.CallExpr) {
	done := false
	ast.Inspect(call, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if done || !ok {
			return !done
		}
		if inner, ok := e.(*ast.CallExpr); ok && is(callee(r.pass, inner), storePath, "Tx", "TxFrom", "SQLTx", "Step", "StepDo") {
			done = true
		}
		if id, ok := e.(*ast.Ident); ok && locals.fromTx(r.pass.TypesInfo.ObjectOf(id)) {
			done = true
		}
		if done {
			r.reportf(e, "a goroutine uses the attempt's transaction: the attempt may end first, and a transaction serves one "+
				"goroutine at a time. Do it in the handler itself, or after the answer with a transaction of its own")
		}
		return !done
	})
}
