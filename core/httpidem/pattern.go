package httpidem

import (
	"net/http"
	"strings"
)

// pattern returns the route of the request as the router spells it, without method and host. "" means that no router has
// found the route yet.
func pattern(r *http.Request) string {
	if i := strings.IndexByte(r.Pattern, '/'); i >= 0 {
		return r.Pattern[i:]
	}
	return ""
}
