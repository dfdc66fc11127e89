package ginidem

import "github.com/gin-gonic/gin"

// pattern returns the route of the request as the router spells it, "" if the request matches none: middleware of the
// whole engine also runs for a 404 or 405.
func pattern(c *gin.Context) string { return c.FullPath() }
