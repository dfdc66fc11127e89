package adapter

// MountedRoute is a route as an adapter found it in its router.
type MountedRoute struct {
	Host    string // for routers that tell hosts apart; "" for the others
	Method  string // "" for any: it counts as a route of each method of RFC 9110 and PATCH
	Pattern string // as the router spells it
	// Handler tells the route's handler from others: see [HandlerOf]. nil if it is not known. A route of any method needs none.
	Handler any
	// Chain is what a request meets on its way to the handler, in that order. It may end with the handler.
	Chain []Link
	// GuardIsLast: a guard stands where the handler should be, so the handler is in front of it. Most routers rule that out.
	GuardIsLast bool
	// Unproven says why Chain may be incomplete or wrong, and how to fix it. "" if Chain is certain.
	Unproven string
}

// Link is one function of a route's chain.
type Link struct {
	Name   string  // of its code, with its package; where the compiler has inlined its constructor, that of the caller
	File   string  // of its source, also then
	Guards []Guard // those that it is; Idempotent is three. nil for a function of others
}

// Guards are those that a request meets, in that order.
func (r MountedRoute) Guards() (guards []Guard) {
	for _, l := range r.Chain {
		guards = append(guards, l.Guards...)
	}
	return guards
}

// String returns "METHOD /pattern", or "METHOD host/pattern" if there is a host.
func (r MountedRoute) String() string { return r.Method + " " + r.Host + r.Pattern }
