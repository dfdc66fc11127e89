package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"net/textproto"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var freshKey = &analysis.Analyzer{
	Name: "freshkey",
	Doc:  "finds retry loops that send a new Idempotency-Key at each try",
	Run:  runFreshKey,
}

func runFreshKey(pass *analysis.Pass) (any, error) {
	r := newReporter(pass)
	eachFunction(pass, func(body *ast.BlockStmt, l locals) {
		ast.Inspect(body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt:
				if triesAgain(pass, n.Body) {
					reportFreshKey(r, l, n.Body)
				}
			case *ast.RangeStmt:
				// A loop over things has a key for each of them. A loop over a number may count tries.
				t, ok := pass.TypesInfo.TypeOf(n.X).Underlying().(*types.Basic)
				if ok && t.Info()&types.IsInteger != 0 && triesAgain(pass, n.Body) {
					reportFreshKey(r, l, n.Body)
				}
			case *ast.CallExpr:
				if f := callee(pass, n); retries(f) {
					for _, arg := range n.Args {
						if lit, ok := ast.Unparen(arg).(*ast.FuncLit); ok {
							reportFreshKey(r, l, lit.Body)
						}
					}
				}
			}
			return true
		})
	})
	return nil, nil
}

// triesAgain reports whether a loop goes on because of an error: it continues after one, leaves without one, or sleeps. A
// loop that has a command for each round does none of these.
func triesAgain(pass *analysis.Pass, body *ast.BlockStmt) (yes bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			yes = yes || is(callee(pass, n), "time", "Sleep", "After", "NewTimer")
		case *ast.IfStmt:
			cond, ok := n.Cond.(*ast.BinaryExpr)
			if !ok || len(n.Body.List) == 0 || !isError(pass, cond.X) {
				return true
			}
			last, _ := n.Body.List[len(n.Body.List)-1].(*ast.BranchStmt)
			_, leaves := n.Body.List[len(n.Body.List)-1].(*ast.ReturnStmt)
			yes = yes || cond.Op == token.NEQ && last != nil && last.Tok == token.CONTINUE ||
				cond.Op == token.EQL && (leaves || last != nil && last.Tok == token.BREAK)
		}
		return !yes
	})
	return yes
}

func isError(pass *analysis.Pass, e ast.Expr) bool {
	t := pass.TypesInfo.TypeOf(e)
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// retries reports whether a function calls its argument again: backoff.Retry, retry.Do and the like.
func retries(f *types.Func) bool {
	if f == nil || f.Pkg() == nil {
		return false
	}
	path := strings.ToLower(f.Pkg().Path())
	return strings.Contains(path, "retry") || strings.Contains(path, "backoff") || strings.HasPrefix(f.Name(), "Retry")
}

// reportFreshKey reports Header.Set("Idempotency-Key", key) in a body that makes the key, too.
func reportFreshKey(r reporter, l locals, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 || !is(callee(r.pass, call), "net/http", "Set", "Add") {
			return true
		}
		name := r.pass.TypesInfo.Types[call.Args[0]].Value
		if name == nil || name.Kind() != constant.String ||
			textproto.CanonicalMIMEHeaderKey(constant.StringVal(name)) != "Idempotency-Key" {
			return true
		}
		if random(l, call.Args[1], body, map[types.Object]bool{}) {
			r.reportf(call, "each try sends a new Idempotency-Key, so each try is a new command: make the key once, before "+
				"the first try")
		}
		return true
	})
}

// random reports whether an expression makes a random key, or names a variable that is given one in body.
func random(l locals, e ast.Expr, body *ast.BlockStmt, seen map[types.Object]bool) (yes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f := callee(l.pass, n)
			yes = yes || is(f, "github.com/google/uuid", "New", "NewString", "NewV7", "NewV6", "NewRandom", "NewUUID", "Must") ||
				is(f, "github.com/gofrs/uuid", "NewV4", "NewV7") || is(f, "github.com/gofrs/uuid/v5", "NewV4", "NewV7") ||
				is(f, "github.com/oklog/ulid/v2", "Make", "New") || is(f, "github.com/rs/xid", "New") ||
				is(f, "crypto/rand", "Text", "Read", "Int")
		case *ast.Ident:
			o := l.pass.TypesInfo.ObjectOf(n)
			if o == nil || seen[o] {
				return true
			}
			seen[o] = true
			for _, value := range l.values[o] {
				if body.Pos() <= value.Pos() && value.End() <= body.End() {
					yes = yes || random(l, value, body, seen)
				}
			}
		}
		return !yes
	})
	return yes
}
