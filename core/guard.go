package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/auth19/idem/core/internal/command"
	"github.com/auth19/idem/core/store"
)

// admission is what the key guard found out about a request. If the interceptor is mounted separately, the request's
// context carries the admission. It is itself that context, to save an allocation.
type admission struct {
	context.Context
	route     *route
	pattern   string
	principal Principal
	id        ID
	echo      []string // the key's header as it came, for the echo (M-3)
	command   command.Command
	hash      store.CommandHash   // in the current version
	keyMade   time.Time           // the time of a key that is a UUIDv7
	keyAge    time.Duration       // how old a timed key may be
	tooOld    bool                // the key was too old when its route left TimedKey
	unaged    bool                // the clocks are too far apart to tell how old the key may be
	judgedAt  time.Time           // this process's clock when a timed key was last judged by it
	body      body                // for the handler
	values    context.Context     // the values of the interceptor's request, without its end; set before the claim
	claimant  store.ClientContext // values, for claims
	call      lazyContext         // the first claim's

	claiming time.Duration // for Event.Claim, until an event has it
	waiting  time.Duration // for Event.Waiting, likewise
	found    string        // the trace of the record that the claim has found

	shadow   bool // the key is only watched: see Policy.ShadowUntil
	unhashed bool // in shadow: the body could not be read to its end
	watched  bool // in shadow: the interceptor has seen it
}

// body is a request body that is in memory.
type body struct{ bytes.Reader }

// Close implements [io.Closer]. The server closes the body that came in.
func (*body) Close() error { return nil }

type admissionKey struct{}

// Value implements [context.Context].
func (a *admission) Value(key any) any {
	if key == (admissionKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// CheckRoles is the roles guard. It returns 401 if the route needs a key or roles and there is no principal, 403 if the
// principal has none of the route's roles (O-1, O-3), and 500 for an unsafe route that is not in the table (O-4). It
// returns nil if the request may continue. pattern is the router's; "" if the router has no route for the request.
//
// Admit checks the same again, so that a chain without a roles guard does not bypass the roles.
func (m *Module) CheckRoles(r *http.Request, pattern string, p Principal) *Reply {
	v := m.visit(r, pattern)
	return v.authorize(r, p)
}

// visit is a request as a guard sees it. What the guards of one chain all want to know is found out once.
type visit struct {
	m       *Module
	pattern string
	route   *route   // nil: there is none, or problem says why
	problem *Problem // the route is not in the table

	guarded bool // the request needs a key
	shadow  bool // its route is in shadow
	inside  bool // it is a request within an attempt

	admission *admission // set by admit; if guard and interceptor are mounted separately, the request's context has it
	x         Exchange   // nil: the request did not come through an adapter's guard
}

func (m *Module) visit(r *http.Request, pattern string) visit {
	route, problem := m.route(r.Method, pattern)
	v := visit{m: m, pattern: pattern, route: route, problem: problem}
	if v.guarded = route != nil && route.guarded(); v.guarded {
		v.shadow, v.inside = route.inShadow(), attemptFrom(r.Context()) != nil
	}
	return v
}

// recovery is that of the route; 0 if there is none.
func (v *visit) recovery() Recovery {
	if v.route == nil {
		return 0
	}
	return v.route.Recovery
}

// authorize checks principal and roles.
func (v *visit) authorize(r *http.Request, p Principal) *Reply {
	m, route, problem := v.m, v.route, v.problem
	switch {
	case route == nil && problem == nil:
		return nil
	case (route == nil || v.guarded || len(route.Roles) > 0) && !m.cfg.Scoping.admits(p):
		return m.refuse(r, m.unauthenticated(r, *v, p, "this route needs an authenticated caller"))
	case route != nil && !p.HasAnyRole(route.Roles...):
		return v.refuseBecause(r, NewProblem(CodeForbidden, "the caller has none of the roles that this route asks for"),
			lacks(p, route.Roles))
	}
	if problem == nil {
		return nil
	}
	return v.refuse(r, problem)
}

// lacks is the reason of a 403 for the observer. Most often the guard in front of the roles gives none to anybody.
func lacks(p Principal, roles []string) error {
	if len(p.Roles) == 0 {
		return fmt.Errorf("idem: the route asks for one of the roles %q, and the caller has no role at all: what says who calls "+
			"must give roles, too (those of the Principal that Bridge gets, or the claim with them)", roles)
	}
	return fmt.Errorf("idem: the route asks for one of the roles %q, and the caller has none of these; it has %d others", roles,
		len(p.Roles))
}

// refuse tells the observer of a refusal, and renders it.
func (v *visit) refuse(r *http.Request, p *Problem) *Reply { return v.refuseBecause(r, p, p.wiring()) }

// refuseBecause is refuse with a reason that only the observer learns.
func (v *visit) refuseBecause(r *http.Request, p *Problem, reason error) *Reply {
	v.m.observe(r.Context(), Event{Kind: EventRefused, Method: r.Method, Route: v.pattern, Recovery: v.recovery(),
		Code: p.Code, Err: reason})
	reply := v.m.refuse(r, p)
	if v.route != nil {
		reply.within = v.route.Deadline
	}
	return reply
}

// Admit is the key guard: after the checks of CheckRoles it takes the key, reads the body and hashes the command (O-1:
// 401, 403, 400, 413 in this order; nothing is recorded). It returns the request for the next handler, or a reply to send
// instead. The context of that request carries what Admit found out, and its body can be read from the beginning (H-5). A
// request that needs no key is returned unchanged.
//
// The hash covers what the handler sees, so the body must not have been read before Admit. If it was, the reply is 500
// misconfigured (O-6). A body that was read and put back as a whole is accepted. If the length of the body is unknown (it
// came in chunks, or a decoder is in front), Admit cannot notice that a part is missing. kept are copies of the body that
// the framework shows to the handler instead of the body: each must equal what Admit reads.
func (m *Module) Admit(r *http.Request, pattern string, p Principal, kept ...[]byte) (*http.Request, *Reply) {
	v := m.visit(r, pattern)
	return v.admitApart(r, p, kept)
}

// admitApart is admit for an interceptor that is mounted separately.
func (v *visit) admitApart(r *http.Request, p Principal, kept [][]byte) (*http.Request, *Reply) {
	admitted, reply := v.admit(r, p, kept)
	if a := v.admission; a != nil {
		admitted = r.WithContext(a)
		a.giveBody(admitted)
	}
	return admitted, reply
}

// admit keeps what it finds out in v. It returns r itself, except in shadow.
func (v *visit) admit(r *http.Request, p Principal, kept [][]byte) (*http.Request, *Reply) {
	if reply := v.authorize(r, p); reply != nil {
		return nil, reply
	}
	if !v.guarded {
		return r, nil
	}
	a := &admission{Context: r.Context(), route: v.route, pattern: v.pattern, principal: p}
	if v.shadow {
		return v.admitShadow(a, r, kept), nil
	}
	if problem := v.admitCommand(a, r, kept); problem != nil {
		return nil, v.refuse(r, problem)
	}
	v.admission = a
	return r, nil
}

// giveBody gives r a body that can be read from the beginning.
func (a *admission) giveBody(r *http.Request) {
	if len(a.command.Body) > 0 { // otherwise the original body is empty, too
		a.body.Reset(a.command.Body)
		r.Body = &a.body
	}
}

func (v *visit) admitCommand(a *admission, r *http.Request, kept [][]byte) *Problem {
	if v.passedGuard(r) {
		return secondGuard()
	}
	if problem := v.m.takeKey(a, r); problem != nil {
		return problem
	}
	_, problem := v.takeCommand(a, r, kept)
	return problem
}

// takeKey takes the key out of the request (contract K).
func (m *Module) takeKey(a *admission, r *http.Request) *Problem {
	key, problem := m.keyOf(r, a.route.KeyFormat)
	if problem != nil {
		return problem
	}
	a.id, a.keyMade = m.cfg.Scoping.RecordID(a.principal, key), keyMade(key)
	a.echo = r.Header[m.cfg.Header]
	return nil
}

// keyOf returns the key in the request's header.
func (m *Module) keyOf(r *http.Request, format KeyFormat) (string, *Problem) {
	if keyInQuery(r.URL.RawQuery, m.cfg.Header) {
		return "", NewProblem(CodeKeyInURL, "the key belongs into the header "+m.cfg.Header+", not into the URL")
	}
	return parseKey(r.Header, m.cfg.Header, format)
}

// takeCommand reads the body and hashes the command. It returns what it has read, even if it returns a problem.
func (v *visit) takeCommand(a *admission, r *http.Request, kept [][]byte) ([]byte, *Problem) {
	if r.Form != nil || r.PostForm != nil || r.MultipartForm != nil {
		return nil, readBefore()
	}
	body, problem := v.readBody(r, a.route.MaxBody)
	if problem != nil {
		if problem.Code == CodeBodyUnreadable {
			problem = v.m.withRetry(problem) // it was lost on its way (C-8)
		}
		return body, problem
	}
	for _, copied := range kept {
		if !bytes.Equal(copied, body) {
			return body, readBefore()
		}
	}
	if command.PartsAbove(r.Header.Get("Content-Type"), body) {
		return body, NewProblem(CodeBodyTooLarge, fmt.Sprintf("the multipart body has more than %d parts, more than %d header "+
			"lines, or more than %d bytes of header in a part; nothing was run",
			command.MaxParts, command.MaxPartHeaders, command.MaxPartHeader))
	}
	a.command = command.Of(r, a.route.CommandHeaders, body)
	hash, hashErr := a.command.Hash(command.Version)
	if hashErr != nil {
		return body, NewProblem(CodeMisconfigured, hashErr.Error())
	}
	a.hash = hash
	return body, nil
}

// passedGuard reports whether a guard has seen the request already. Inside an attempt, the context may have only the
// attempt.
func (v *visit) passedGuard(r *http.Request) bool {
	return v.inside || r.Context().Value(admissionKey{}) != nil
}

// secondGuard is the answer to a request that meets a guard twice (O-4). It does not declare the attempt around it
// NotApplied, because a handler may have changed something before it passed the request on.
func secondGuard() *Problem {
	return NewProblem(CodeMisconfigured, "this route is guarded twice; mount the guards once, on the group or on the route")
}

// readBody reads the whole body, which may have at most limit bytes (H-5). With a problem it returns what it has read. The
// announced length is only a hint if outer middleware may have decoded the body. Otherwise a shorter body means that a part
// of it was read before (O-6).
func (v *visit) readBody(r *http.Request, limit int64) ([]byte, *Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, allLeft(r, 0)
	}
	if r.ContentLength > limit {
		return aboveTheCap(r)
	}
	// One byte more than expected, to see the end without growing. Until the first bytes arrive, that is all the memory.
	whole := make([]byte, 0, min(expectedLeft(r, 0), bytes.MinRead)+1)
	for {
		n, err := r.Body.Read(whole[len(whole):cap(whole)])
		whole = whole[:len(whole)+n]
		switch {
		case int64(len(whole)) > limit:
			return whole, bodyTooLarge()
		case err == io.EOF:
			return whole, allLeft(r, int64(len(whole)))
		case err != nil:
			return whole, v.unreadable(err)
		case len(whole) == cap(whole):
			arrived := int64(len(whole))
			whole = slices.Grow(whole, int(min(expectedLeft(r, arrived), arrived)+1)) // at most as much as has arrived (H-9)
		}
	}
}

// expectedLeft is how much of the body is expected after read bytes. A client can announce any length at no cost, and none.
func expectedLeft(r *http.Request, read int64) int64 {
	if left := r.ContentLength - read; left > 0 {
		return left
	}
	return math.MaxInt64 - 1
}

// allLeft is the problem of a body that ended after left bytes although the client sent more. If the client breaks off,
// reading fails instead.
func allLeft(r *http.Request, left int64) *Problem {
	if left < r.ContentLength && !decoded(r) || left == 0 && r.ContentLength != 0 {
		return readBefore()
	}
	return nil
}

// decoded reports whether the announced length may be the length of an encoded form of the body. Either the body came
// encoded, or middleware has decoded it and removed both headers, as Gin's does. A body straight from the server has the
// header with its length.
func decoded(r *http.Request) bool {
	return r.Header.Get("Content-Encoding") != "" ||
		r.Header.Get("Content-Length") == "" && r.Context().Value(http.ServerContextKey) != nil
}

// aboveTheCap is the problem of a body whose announced length is above the cap, and what was read of the body. It reads one
// byte to find out whether the body was read before. It does not read if the client waits for 100 Continue, so that the
// client does not send the body.
func aboveTheCap(r *http.Request) ([]byte, *Problem) {
	if r.Header.Get("Expect") != "" {
		return nil, bodyTooLarge()
	}
	first := make([]byte, 1)
	n, err := r.Body.Read(first)
	if n == 0 && err == io.EOF {
		return nil, readBefore()
	}
	return first[:n], bodyTooLarge()
}

// readBefore is the problem of a body that was read before the key guard (O-6): the rest is another command.
func readBefore() *Problem {
	return NewProblem(CodeMisconfigured, "the body was read before the key guard, and nothing was run; mount the guard "+
		"before all middleware that reads the body or parses its form. An empty body needs Content-Length: 0")
}

// unreadable is the problem of a body that could not be read to its end.
func (v *visit) unreadable(err error) *Problem {
	if v.statusOf(err) == http.StatusRequestEntityTooLarge { // a cap of outer middleware
		return bodyTooLarge()
	}
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		return readBefore()
	}
	return NewProblem(CodeBodyUnreadable, "the request body broke off; nothing was run")
}

// statusOf returns the status that an error of reading stands for; 0 for none.
func (v *visit) statusOf(err error) int {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return http.StatusRequestEntityTooLarge
	}
	if own, ok := errors.AsType[interface {
		error
		StatusCode() int
	}](err); ok {
		return own.StatusCode()
	}
	if v.x == nil {
		return 0
	}
	return v.x.StatusOf(err)
}

func bodyTooLarge() *Problem {
	return NewProblem(CodeBodyTooLarge, "the request body is larger than this route takes; nothing was run")
}

// event is an event of a request that the key guard has seen.
func (a *admission) event(kind EventKind) Event {
	return Event{Kind: kind, Operation: a.id, Method: a.command.Method, Route: a.pattern, Recovery: a.route.Recovery}
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
