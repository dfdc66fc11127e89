package main

import (
	"go/ast"
	"go/types"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// The packages whose calls the checks know.
const (
	gormPath  = "gorm.io/gorm"
	ginPath   = "github.com/gin-gonic/gin"
	corePath  = "github.com/auth19/idem/core"
	storePath = "github.com/auth19/idem/gormstore"
	echoPath  = "github.com/labstack/echo/v4"
	echo5Path = "github.com/labstack/echo/v5"
	chiPath   = "github.com/go-chi/chi/v5"
	httpPath  = "net/http"
	httpidem  = "github.com/auth19/idem/core/httpidem"
)

// adapters are the packages that have the guards.
var adapters = []string{"github.com/auth19/idem/ginidem", "github.com/auth19/idem/echoidem",
	"github.com/auth19/idem/echoidem/v5", httpidem}

// routerTypes are the types that routes are put on, by package.
var routerTypes = map[string][]string{
	ginPath:   {"Engine", "RouterGroup", "IRouter", "IRoutes"},
	echoPath:  {"Echo", "Group"},
	echo5Path: {"Echo", "Group"},
	chiPath:   {"Mux", "Router"},
	httpPath:  {"ServeMux"},
	httpidem:  {"Router"},
}

// unsafeMethods are those whose routes are guarded.
var unsafeMethods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// named reports whether t, or what t points to, is the type with the path and name.
func named(t types.Type, path, name string) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path
}

func isDB(t types.Type) bool { return t != nil && named(t, gormPath, "DB") }

func isContext(t types.Type) bool { return t != nil && named(t, "context", "Context") }

// callee returns the function or method that a call names, an interface's method too; nil for a function value.
func callee(pass *analysis.Pass, call *ast.CallExpr) *types.Func {
	f, _ := typeutil.Callee(pass.TypesInfo, call).(*types.Func)
	if f != nil {
		return f.Origin()
	}
	return nil
}

// is reports whether f is the function, or the method of any type, that has one of the names in the package.
func is(f *types.Func, path string, names ...string) bool {
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == path && slices.Contains(names, f.Name())
}

// objectOf returns the variable that an expression names; nil for other expressions.
func objectOf(pass *analysis.Pass, e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return pass.TypesInfo.ObjectOf(e)
	case *ast.SelectorExpr:
		return pass.TypesInfo.ObjectOf(e.Sel)
	}
	return nil
}

// reporter reports findings, but not those that a comment silences.
type reporter struct {
	pass    *analysis.Pass
	ignored map[string]map[int]bool // lines by file
}

func newReporter(pass *analysis.Pass) reporter {
	r := reporter{pass, map[string]map[int]bool{}}
	for _, file := range pass.Files {
		for _, group := range file.Comments {
			for _, c := range group.List {
				reason, ok := strings.CutPrefix(c.Text, "//idemvet:ignore")
				at := pass.Fset.Position(c.Pos())
				if !ok || strings.TrimSpace(reason) == "" {
					continue
				}
				if r.ignored[at.Filename] == nil {
					r.ignored[at.Filename] = map[int]bool{}
				}
				r.ignored[at.Filename][at.Line], r.ignored[at.Filename][at.Line+1] = true, true
			}
		}
	}
	return r
}

func (r reporter) silenced(n ast.Node) bool {
	at := r.pass.Fset.Position(n.Pos())
	return r.ignored[at.Filename][at.Line]
}

func (r reporter) reportf(n ast.Node, format string, args ...any) {
	if !r.silenced(n) {
		r.pass.ReportRangef(n, format, args...)
	}
}
