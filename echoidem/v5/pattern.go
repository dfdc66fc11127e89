package echoidem

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// pattern returns the route of the request as the router spells it, "" if the request matches none: Echo also runs the
// middleware of groups for unknown paths and wrong methods.
func pattern(c *echo.Context) string {
	found := c.RouteInfo()
	if found.Method == "" || found.Method == echo.RouteNotFound {
		return ""
	}
	return found.Path
}

// unguardable says why the route of the request, or its method, is not what core would take it for; "" if it is.
func unguardable(c *echo.Context) string {
	found, method := c.RouteInfo(), c.Request().Method
	switch {
	case found.Method == "" && found.Name == "": // the router gives a name to a request that matches nothing
		return "the guard stands in front of the router, where the route is not known yet; mount it by Use, not by Pre"
	case found.Method == "", found.Method == echo.RouteNotFound, found.Method == echo.RouteAny, found.Method == method,
		found.Method == http.MethodGet && method == http.MethodHead: // the router's AutoHandleHEAD
		return ""
	}
	return "the method of the request was changed after the router had chosen a route by it; mount what changes methods by " +
		"Pre, not by Use"
}
