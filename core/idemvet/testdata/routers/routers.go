// Package routers mounts guarded routes in the ways that apps have.
package routers

import (
	"net/http"
	"os"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

type payment struct{ ID uint }

type server struct {
	db     *gorm.DB
	idem   *core.Module
	engine *gin.Engine
	money  *gin.RouterGroup
	guards []gin.HandlerFunc
}

func newServer(db *gorm.DB, idem *core.Module) *server {
	s := &server{db: db, idem: idem, engine: gin.New(), guards: []gin.HandlerFunc{gin.Recovery(), ginidem.Idempotent(idem)}}
	s.money = s.group("/field")
	s.routes()
	return s
}

func (s *server) group(path string) *gin.RouterGroup { return s.engine.Group(path, s.guards...) }

func (s *server) guard() gin.HandlerFunc { return ginidem.Idempotent(s.idem) }

func (s *server) stray(*gin.Context) {
	s.db.Create(&payment{}) // want `straywrite: Create goes past the attempt`
}

func (s *server) routes() {
	s.money.POST("/x", s.stray)                  // guarded POST /field/x
	s.group("/helper").POST("/x", s.stray)       // guarded POST /helper/x
	s.engine.POST("/method", s.guard(), s.stray) // guarded POST /method
	chain := []gin.HandlerFunc{gin.Logger()}
	chain = append(chain, s.guard())
	used := s.engine.Group("/used")
	used.Use(chain...)
	used.POST("/x", s.stray)                                              // guarded POST /used/x
	s.engine.PUT("/variadic", append(chain, s.stray)...)                  // guarded PUT /variadic
	s.engine.DELETE("/wrapped", own(ginidem.Idempotent(s.idem)), s.stray) // guarded DELETE /wrapped
	s.engine.POST("/plain", gin.Logger(), s.stray)
	register(s.engine.Group("/a", s.guard()), "/first", s.stray)
	register(s.engine.Group("/b", s.guard()), "/second", s.stray)
	register(&s.engine.RouterGroup, "/free", s.stray)
	onOwn(s.money, s.stray)
	onOwn(wrapper{s.engine.Group("/wrapper"), s.guard()}, s.stray)
	for _, r := range []routed{{"POST", "/listed", s.stray}, {"GET", "/read", s.stray}} {
		s.money.Handle(r.method, r.path, r.handler) // guarded ? /field/?
	}
	s.money.Any("/any", s.stray)                                                   // guarded POST /field/any, PUT /field/any, PATCH /field/any, DELETE /field/any
	s.money.Match([]string{"GET", "POST"}, "/match", s.stray)                      // guarded POST /field/match
	s.money.POST("/net", gin.WrapF(s.plain), gin.WrapH(http.HandlerFunc(s.plain))) // guarded POST /field/net
	s.money.POST(prefix+"/joined", s.stray)                                        // guarded POST /field/v1/joined
	s.money.POST(base+"/base", s.stray)                                            // guarded POST /field/?/base
	s.money.POST(plus(plus("/a", "/b"), "/plus"), s.stray)                         // guarded POST /field/a/b/plus
	var deep string
	for _, add := range []func(){func() { deep += "/deep" }} {
		add()
	}
	s.money.POST(deep, s.stray) // guarded POST /field/?
	(&fluent{r: s.engine, guard: s.guard()}).group("/v2").group("/fluent").post("/x", s.stray)
}

var base string

func init() { base += os.Getenv("BASE") }

func plus(a, b string) string { return a + b }

// fluent is a group whose prefix grows.
type fluent struct {
	r      *gin.Engine
	guard  gin.HandlerFunc
	prefix string
}

func (f *fluent) group(path string) *fluent {
	f.prefix = plus(f.prefix, path)
	return f
}

func (f *fluent) post(path string, h gin.HandlerFunc) {
	f.r.POST(f.prefix+path, f.guard, h) // guarded POST /?/x
}

const prefix = "/v1"

func (s *server) plain(http.ResponseWriter, *http.Request) {
	s.db.Save(&payment{}) // want `straywrite: Save goes past the attempt.*POST /field/net`
}

type routed struct {
	method, path string
	handler      gin.HandlerFunc
}

func own(guard gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.Query("dry") == "" {
			guard(c)
		}
	}
}

func register(g *gin.RouterGroup, path string, h gin.HandlerFunc) {
	g.PATCH(path, h) // guarded PATCH /a/first, PATCH /b/second
}

// poster is a router of the app's own, and wrapper another one.
type poster interface {
	POST(path string, h ...gin.HandlerFunc) gin.IRoutes
}

type wrapper struct {
	group *gin.RouterGroup
	guard gin.HandlerFunc
}

func (w wrapper) POST(path string, h ...gin.HandlerFunc) gin.IRoutes {
	return w.group.POST(path, append([]gin.HandlerFunc{w.guard}, h...)...) // guarded POST /wrapper/own
}

func onOwn(p poster, h gin.HandlerFunc) {
	p.POST("/own", h) // guarded POST /field/own
}

func onEcho(e *echo.Echo, idem *core.Module, db *gorm.DB, more ...echo.MiddlewareFunc) {
	chain := append([]echo.MiddlewareFunc{echoidem.Bridge(nil, nil)}, echoidem.Idempotent(idem))
	stray := func(echo.Context) error {
		return db.Create(&payment{}).Error // want `straywrite: Create goes past the attempt`
	}
	writes := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			db.Delete(&payment{}) // want `straywrite: Delete goes past the attempt`
			return next(c)
		}
	}
	before := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			db.Delete(&payment{})
			return next(c)
		}
	}
	g := e.Group("/e", before)
	g.Use(chain...)
	g.POST("/x", stray, writes)                    // guarded POST /e/x
	e.POST("/y", stray, chain...)                  // guarded POST /y
	e.Add("PUT", "/z", stray, chain...)            // guarded PUT /z
	e.POST("/kept", taken, append(chain, kept)...) // guarded POST /kept
	e.POST("/free", stray, before)
}

// kept is middleware that keeps the attempt's transaction for the handler.
func kept(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Set("tx", gormstore.Tx(c.Request().Context()))
		return next(c)
	}
}

func taken(c echo.Context) error { return c.Get("tx").(*gorm.DB).Create(&payment{}).Error }
