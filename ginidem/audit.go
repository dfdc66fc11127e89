package ginidem

import (
	"reflect"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/adapter"
)

// Audit checks, before the app serves, that its routes have the guards that the route table of idem asks for. It returns
// one error that names everything that is wrong: see core's AuditRoutes. Call it after the last route.
//
// It runs no handler and no middleware. It reads the handler chain of each route from the engine, and recognises the
// guards of this package by the address of their code. It does not see a guard that another function calls, and does not
// tell two modules apart. If another Gin version has another layout, the routes are reported as unproven.
func Audit(r *gin.Engine, idem *core.Module) error {
	return idem.AuditRoutes(mounted(r.Routes(), chainsOf(reflect.ValueOf(r))))
}

// mounted returns the routes with the guards in the chain of each.
func mounted(routes gin.RoutesInfo, chains map[routeKey][]uintptr) []adapter.MountedRoute {
	guards := guardCodes()
	found := make([]adapter.MountedRoute, len(routes))
	for i, r := range routes {
		// Gin unescapes a colon when it begins to serve, and c.FullPath has it unescaped.
		found[i] = adapter.MountedRoute{Method: r.Method, Pattern: strings.ReplaceAll(r.Path, `\:`, ":"),
			Handler: adapter.HandlerOf(r.HandlerFunc)}
		chain := chains[routeKey{r.Method, r.Path}]
		if len(chain) == 0 || chain[len(chain)-1] != adapter.CodeOf(r.HandlerFunc) {
			found[i].Unproven = "the chain of its handlers could not be read; use the Gin version that this module requires"
		}
		for _, code := range chain {
			link := guards.Link(code)
			found[i].Chain, found[i].GuardIsLast = append(found[i].Chain, link), link.Guards != nil
		}
	}
	return found
}

// guardCodes are those of the guards of this package.
func guardCodes() adapter.GuardCodes {
	return adapter.NewGuardCodes(JWTGuard(nil), Bridge(nil), RolesGuard(nil), KeyGuard(nil), Interceptor(nil), Idempotent(nil))
}

type routeKey struct{ method, path string }

// chainsOf reads the code addresses of each route's handlers from the engine.
func chainsOf(engine reflect.Value) map[routeKey][]uintptr {
	chains := map[routeKey][]uintptr{}
	eachChain(engine, func(r routeKey, handlers reflect.Value) {
		var codes []uintptr
		for handler := range elements(handlers) {
			if handler.Kind() == reflect.Func {
				codes = append(codes, handler.Pointer())
			}
		}
		chains[r] = codes
	})
	return chains
}

// eachChain reads the chain of each route from the engine's routing trees, which Gin does not export. It leaves out what
// has another layout than expected.
func eachChain(engine reflect.Value, each func(r routeKey, handlers reflect.Value)) {
	for tree := range elements(field(engine, "trees")) {
		if method := field(tree, "method"); method.Kind() == reflect.String {
			walk(field(tree, "root"), method.String(), each)
		}
	}
}

// walk visits the chains of a node and of those below it.
func walk(node reflect.Value, method string, each func(r routeKey, handlers reflect.Value)) {
	path, handlers := field(node, "fullPath"), field(node, "handlers")
	if path.Kind() == reflect.String && handlers.Kind() == reflect.Slice && handlers.Len() > 0 {
		each(routeKey{method, path.String()}, handlers)
	}
	for child := range elements(field(node, "children")) {
		walk(child, method, each)
	}
}

// field returns a field of the struct that v is or points to, or the zero Value if there is none.
func field(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

// elements yields the elements of a slice, and nothing for other kinds.
func elements(v reflect.Value) func(yield func(reflect.Value) bool) {
	return func(yield func(reflect.Value) bool) {
		for i := 0; v.Kind() == reflect.Slice && i < v.Len(); i++ {
			if !yield(v.Index(i)) {
				return
			}
		}
	}
}
