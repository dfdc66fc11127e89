package ginidem

import "github.com/gin-gonic/gin"

// pattern is the route of the request as the router spells it, "" where the router has none: a 404 or 405, to which
// middleware of the whole engine runs too.
func pattern(c *gin.Context) string { return c.FullPath() }
