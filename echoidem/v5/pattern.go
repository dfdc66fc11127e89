package echoidem

import "github.com/labstack/echo/v5"

// pattern returns the route of the request as the router spells it, "" if the request matches none: Echo also runs the
// middleware of groups for unknown paths and wrong methods.
func pattern(c *echo.Context) string {
	found := c.RouteInfo()
	if found.Method == "" || found.Method == echo.RouteNotFound {
		return ""
	}
	return found.Path
}
