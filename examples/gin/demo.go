package main

import (
	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/examples/internal/app"
	"github.com/auth19/idem/examples/internal/demo"
	"github.com/auth19/idem/ginidem"
)

// mountDemo mounts the page that explains the library, and in demo mode what the page needs. Your app needs none of it.
func mountDemo(r *gin.Engine, a *app.App) {
	r.GET("/", gin.WrapH(demo.Page(a.Demo != nil)))
	if a.Demo == nil {
		return
	}
	r.GET("/demo/files/:file", gin.WrapH(demo.Files()))
	r.GET("/demo/visitor", gin.WrapF(a.Demo.Visitor))
	callers := r.Group("/demo", ginidem.JWTGuard(a.Verifier, a.Observer), ginidem.Idempotent(a.Idem))
	callers.POST("/payments", gin.WrapF(a.Demo.Pay)) // no key: declared as exempt, with the reason
	callers.GET("/payments", gin.WrapF(a.Demo.Payments))
}
