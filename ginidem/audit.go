package ginidem

import (
	"reflect"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
)

// Audit proves, before an app serves, that its routes are guarded as the table of idem says (contract D-2). It returns
// one error that names everything that is wrong: see core's AuditRoutes. Call it after the last route.
//
// It runs no handler and no middleware: it reads the chain of each route out of the engine and knows the guards of this
// package by their code. A guard inside another function is not seen, and two modules are not told apart. The guards of
// another Gin version may not be readable: those routes are reported as unproven.
func Audit(r *gin.Engine, idem *core.Module) error {
	return idem.AuditRoutes(mounted(r.Routes(), chainsOf(reflect.ValueOf(r))))
}

// mounted says which guards are in the chain of each route.
func mounted(routes gin.RoutesInfo, chains map[routeKey][]uintptr) []core.MountedRoute {
	guards := guardsByCode()
	found := make([]core.MountedRoute, len(routes))
	for i, r := range routes {
		// Gin unescapes a colon when it serves for the first time, and so does c.FullPath.
		found[i] = core.MountedRoute{Method: r.Method, Pattern: strings.ReplaceAll(r.Path, `\:`, ":")}
		chain := chains[routeKey{r.Method, r.Path}]
		if len(chain) == 0 || chain[len(chain)-1] != codeOf(r.HandlerFunc) {
			found[i].Unproven = "the chain of its handlers could not be read; use the Gin version that this module requires"
		}
		for _, code := range chain {
			found[i].Guards = append(found[i].Guards, guards[code]...)
		}
	}
	return found
}

// guardsByCode says which guards a function of this package stands for. Closures of one constructor share their code.
func guardsByCode() map[uintptr][]core.Guard {
	return map[uintptr][]core.Guard{
		codeOf(JWTGuard(nil)):    {core.GuardJWT},
		codeOf(Bridge(nil)):      {core.GuardJWT},
		codeOf(RolesGuard(nil)):  {core.GuardRoles},
		codeOf(KeyGuard(nil)):    {core.GuardKey},
		codeOf(Interceptor(nil)): {core.GuardInterceptor},
		codeOf(Idempotent(nil)):  {core.GuardRoles, core.GuardKey, core.GuardInterceptor},
	}
}

func codeOf(f gin.HandlerFunc) uintptr { return reflect.ValueOf(f).Pointer() }

type routeKey struct{ method, path string }

// chainsOf reads the code of each route's handlers out of the engine's routing trees, which Gin does not export. What
// is laid out in another way than it was known to be is left out.
func chainsOf(engine reflect.Value) map[routeKey][]uintptr {
	chains := map[routeKey][]uintptr{}
	for tree := range elements(field(engine, "trees")) {
		if method := field(tree, "method"); method.Kind() == reflect.String {
			walk(field(tree, "root"), method.String(), chains)
		}
	}
	return chains
}

// walk collects the chains of a node and of those below it.
func walk(node reflect.Value, method string, chains map[routeKey][]uintptr) {
	var chain []uintptr
	for handler := range elements(field(node, "handlers")) {
		if handler.Kind() == reflect.Func {
			chain = append(chain, handler.Pointer())
		}
	}
	if path := field(node, "fullPath"); path.Kind() == reflect.String && chain != nil {
		chains[routeKey{method, path.String()}] = chain
	}
	for child := range elements(field(node, "children")) {
		walk(child, method, chains)
	}
}

// field returns a field of the struct that v is or points to; the zero Value where there is none.
func field(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

// elements yields the elements of a slice; none of anything else.
func elements(v reflect.Value) func(yield func(reflect.Value) bool) {
	return func(yield func(reflect.Value) bool) {
		for i := 0; v.Kind() == reflect.Slice && i < v.Len(); i++ {
			if !yield(v.Index(i)) {
				return
			}
		}
	}
}
