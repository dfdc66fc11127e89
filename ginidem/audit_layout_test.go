package ginidem

import (
	"reflect"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/adapter"
	"github.com/auth19/idem/core/memstore"
)

// Audit reads what Gin does not export. Another layout, of another version, makes routes unproven and nothing else.
func TestLayout(t *testing.T) {
	r := gin.New()
	guard := JWTGuard(nil)
	r.POST("/a/:id", guard, func(*gin.Context) {})
	r.GET("/a/b", func(*gin.Context) {})
	r.GET("/static/*file", func(*gin.Context) {})

	chains := chainsOf(reflect.ValueOf(r))
	require.Len(t, chains, 3, "Gin's layout has changed: Audit has to learn the new one")
	require.Equal(t, adapter.CodeOf(guard), chains[routeKey{"POST", "/a/:id"}][0])
	for _, route := range mounted(r.Routes(), chains) {
		require.Empty(t, route.Unproven)
	}

	type node struct {
		handlers []string
		fullPath int
		children map[string]int
	}
	type tree struct {
		method string
		root   *node
	}
	for _, other := range []any{
		r.RouterGroup, &r.RouterGroup, 7, (*gin.Engine)(nil),
		struct{ trees int }{},
		struct{ trees []int }{[]int{1}},
		struct{ trees []struct{ method int } }{make([]struct{ method int }, 1)},
		struct{ trees []tree }{[]tree{{"POST", nil}, {"POST", &node{[]string{"/a/:id"}, 7, map[string]int{"a": 1}}}}},
		struct {
			trees []struct{ method, root string }
		}{[]struct{ method, root string }{{"POST", "/a/:id"}}},
	} {
		require.Empty(t, chainsOf(reflect.ValueOf(other)), "%T", other)
	}

	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	require.NoError(t, err)
	short := map[routeKey][]uintptr{{"POST", "/a/:id"}: {adapter.CodeOf(Idempotent(idem))}} // its handler is not the last
	for _, unreadable := range []map[routeKey][]uintptr{nil, short} {
		err := idem.AuditRoutes(mounted(r.Routes(), unreadable))
		require.ErrorContains(t, err, "POST /a/:id: is unproven: the chain of its handlers could not be read")
	}
}
