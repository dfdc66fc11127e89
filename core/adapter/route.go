package adapter

// MountedRoute is a route as an adapter found it in its router.
type MountedRoute struct {
	Host    string // for routers that tell hosts apart; "" for the others
	Method  string // "" for any: it counts as a route of each method of RFC 9110 and PATCH
	Pattern string // as the router spells it
	Subtree bool   // the pattern takes every path below it, too, and does not say so by a wildcard
	// Handler tells handlers apart: routes that one registration for any method has made have the same, the address of its
	// code for instance. 0 if it is not known. A route of any method needs none.
	Handler uintptr
	// Guards are those that a request meets on its way to the handler, in that order. Idempotent counts as its three.
	Guards []Guard
	// Unproven says why Guards may be incomplete or wrong, and how to fix it. "" if Guards is certain.
	Unproven string
}

// String returns "METHOD /pattern", or "METHOD host/pattern" if there is a host.
func (r MountedRoute) String() string { return r.Method + " " + r.Host + r.Pattern }
