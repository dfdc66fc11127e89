package ginidem

import (
	"maps"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/gin-gonic/gin"
)

// pattern returns the route of the request as the router spells it, "" if the request matches none: middleware of the
// whole engine also runs for a 404 or 405.
func pattern(c *gin.Context) string { return c.FullPath() }

// methods tells by which method the router has chosen a route. The request does not tell it: middleware may have changed
// it since. But each route has a chain of handlers of its own, and the context has the chosen one. Both are read as Audit
// reads them.
//
// Without it, middleware behind the router that makes a POST look like a GET runs the handler of the POST without a key
// (K-8). Gin exports neither the chain nor the engine of a context. Not enough instead: Context.Handler and
// Engine.Routes, which have the code of a handler; closures of one constructor have the same code. A request costs one
// comparison of an address, no allocation. TestMethodsLearn and TestLayout pin the layout, in the lowest and in the
// newest version of Gin that CI runs. If another version has another layout, they fail, and in an app no method is known:
// the guard then believes the request.
type methods struct {
	mu    sync.Mutex
	known atomic.Pointer[map[uintptr]chosen] // by the address of the chain; the map is replaced, never changed
}

type chosen struct {
	method string        // "" if no route has this chain
	chain  reflect.Value // keeps the memory of the chain, and so its address
}

// chainField is where a context has its chain.
var chainField, chainKnown = reflect.TypeFor[gin.Context]().FieldByName("handlers")

// unguardable says why the method of the request is not what core would take it for; "" if it is.
func (m *methods) unguardable(c *gin.Context) string {
	if c.FullPath() == "" || !chainKnown || chainField.Type.Kind() != reflect.Slice {
		return ""
	}
	chain := reflect.ValueOf(c).Elem().FieldByIndex(chainField.Index)
	var found chosen
	known := m.known.Load()
	if known != nil {
		found = (*known)[chain.Pointer()]
	}
	if !found.chain.IsValid() {
		found = m.learn(c, chain)
	}
	switch method := c.Request.Method; {
	case found.method == "", found.method == method, found.method == http.MethodGet && method == http.MethodHead:
		return ""
	}
	return "the method of the request was changed after the router had chosen a route by it; change it in front of the engine"
}

// learn looks for the chain among the engine's routes.
func (m *methods) learn(c *gin.Context, chain reflect.Value) chosen {
	found := chosen{chain: chain.Slice(0, chain.Len())} // chain is a field of c, which Gin uses again
	eachChain(field(reflect.ValueOf(c), "engine"), func(r routeKey, handlers reflect.Value) {
		if handlers.Pointer() == chain.Pointer() {
			found.method = r.method
		}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[uintptr]chosen{chain.Pointer(): found}
	if old := m.known.Load(); old != nil {
		maps.Copy(known, *old)
	}
	m.known.Store(&known)
	return found
}
