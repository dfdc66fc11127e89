package main

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/examples/internal/app"
	"github.com/auth19/idem/examples/internal/demo"
)

// mountDemo mounts the page that explains the library, and in demo mode what the page needs. Your app needs none of it.
func mountDemo(e *echo.Echo, a *app.App) {
	e.GET("/", echo.WrapHandler(demo.Page(a.Demo != nil)))
	if a.Demo == nil {
		return
	}
	e.GET("/demo/files/:file", echo.WrapHandler(demo.Files()))
	e.GET("/demo/visitor", echo.WrapHandler(http.HandlerFunc(a.Demo.Visitor)))
	callers := e.Group("/demo", echoidem.JWTGuard(a.Verifier, a.Observer), echoidem.Idempotent(a.Idem))
	callers.POST("/payments", echo.WrapHandler(http.HandlerFunc(a.Demo.Pay))) // no key: declared as exempt, with the reason
	callers.GET("/payments", echo.WrapHandler(http.HandlerFunc(a.Demo.Payments)))
}
