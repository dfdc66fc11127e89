package core

// event is an event of a request that the key guard has seen.
func (a *admission) event(kind EventKind) Event {
	return Event{Kind: kind, Operation: a.id, Method: a.command.method, Route: a.pattern, Recovery: a.route.Recovery}
}

// timed is event with the times of the claim. Only the first timed event of a request has them.
func (a *admission) timed(kind EventKind) Event {
	e := a.event(kind)
	e.Claim, e.Waiting = a.claiming, a.waiting
	a.claiming, a.waiting = 0, 0
	return e
}

// refused is the event of a refusal.
func (a *admission) refused(code Code) Event {
	e := a.timed(EventRefused)
	e.Code, e.Traceparent = code, a.found
	return e
}
