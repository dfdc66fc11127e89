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

// unguardable says why the route of the request, or its method, is not what core would take it for; "" if it is. Patterns of
// http.ServeMux may begin with the method, those of chi do not.
func unguardable(r *http.Request) string {
	end := strings.IndexAny(r.Pattern, " \t") // http.ServeMux takes both
	method := r.Pattern[:max(end, 0)]
	switch {
	case pattern(r) == "":
		return "the guard stands in front of the router, where the route is not known yet; mount it on the routes"
	case method != "" && method != r.Method && (method != http.MethodGet || r.Method != http.MethodHead): // HEAD passes
		return "the method of the request was changed after the router had chosen a route by it; change it in front of the router"
	}
	return ""
}
