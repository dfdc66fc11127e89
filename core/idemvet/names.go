package main

import (
	"go/types"
	"net/http"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// The packages whose calls the checks know.
const (
	libraryPath = "github.com/auth19/idem"
	corePath    = libraryPath + "/core"
	storePath   = libraryPath + "/gormstore"
	gormPath    = "gorm.io/gorm"
	ginPath     = "github.com/gin-gonic/gin"
	echoPath    = "github.com/labstack/echo/v4"
	echo5Path   = "github.com/labstack/echo/v5"
	httpPath    = "net/http"
	pgxPath     = "github.com/jackc/pgx/v5"
)

// adapters are the packages that have the guards.
var adapters = []string{libraryPath + "/ginidem", libraryPath + "/echoidem", libraryPath + "/echoidem/v5",
	libraryPath + "/core/httpidem"}

// unsafeMethods are those whose routes are guarded.
var unsafeMethods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// isNamed reports whether t, or what t points to, is the type with the path and one of the names.
func isNamed(t types.Type, path string, names ...string) bool {
	n := namedOf(t)
	return n != nil && n.Pkg() != nil && n.Pkg().Path() == path && (len(names) == 0 || slices.Contains(names, n.Name()))
}

// namedOf returns the name of a type, or of what it points to; nil if it has none.
func namedOf(t types.Type) *types.TypeName {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj()
	}
	return nil
}

// callee returns the function or method that a call names, an interface's method too; nil for a function value.
func callee(site ssa.CallInstruction) *types.Func {
	common := site.Common()
	if common.IsInvoke() {
		return common.Method.Origin()
	}
	if f := common.StaticCallee(); f != nil {
		if object, ok := f.Object().(*types.Func); ok {
			return object.Origin()
		}
		if f.Origin() != nil {
			object, _ := f.Origin().Object().(*types.Func)
			return object
		}
	}
	return nil
}

// is reports whether f is the function, or the method of any type, that has one of the names in the package.
func is(f *types.Func, path string, names ...string) bool {
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == path && slices.Contains(names, f.Name())
}

func isGuard(f *types.Func) bool {
	return slices.ContainsFunc(adapters, func(path string) bool { return is(f, path, "Idempotent", "Interceptor") })
}

// isRequest reports whether a value of the type gives a handler its request, or the context of it.
func isRequest(t types.Type) bool {
	return isNamed(t, ginPath, "Context") || isNamed(t, echoPath, "Context") || isNamed(t, echo5Path, "Context") ||
		isNamed(t, httpPath, "Request") || isNamed(t, "context", "Context")
}
