package core

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"

	"github.com/auth19/idem/core/internal/command"
)

// CheckRoles is the roles guard. It returns 401 if the route needs a key or roles and there is no principal, 403 if the
// principal has none of the route's roles (O-1, O-3), and 500 for an unsafe route that is not in the table (O-4). It
// returns nil if the request may continue. pattern is the router's; "" if the router has no route for the request.
//
// Admit checks the same again, so that a chain without a roles guard does not bypass the roles.
func (m *Module) CheckRoles(r *http.Request, pattern string, p Principal) *Reply {
	return m.newRequest(r, pattern).authorize(r, p)
}

// authorize checks principal and roles.
func (q *request) authorize(r *http.Request, p Principal) *Reply {
	route, problem := q.route, q.problem
	switch {
	case route == nil && problem == nil:
		return nil
	case (route == nil || q.guarded || len(route.Roles) > 0) && !q.m.cfg.Scoping.admits(p):
		return q.unauthenticated(r, p)
	case route != nil && !p.HasAnyRole(route.Roles...):
		return q.refuseWith(r, NewProblem(CodeForbidden, "the caller has none of the roles that this route asks for"),
			lacks(p, route.Roles))
	}
	if problem == nil {
		return nil
	}
	return q.refuse(r, problem)
}

// unauthenticated refuses a principal that is not admitted, and tells the observer why (O-7).
func (q *request) unauthenticated(r *http.Request, p Principal) *Reply {
	q.m.observe(r.Context(), Event{Kind: EventRefused, Method: r.Method, Route: q.pattern, Recovery: q.recovery(),
		Code: CodeUnauthenticated, Err: q.m.cfg.Scoping.lacks(p)})
	return q.m.refuse(r, NewProblem(CodeUnauthenticated, "this route needs an authenticated caller"))
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
func (q *request) refuse(r *http.Request, p *Problem) *Reply { return q.refuseWith(r, p, p.wiring()) }

// refuseWith is refuse with a reason that only the observer learns.
func (q *request) refuseWith(r *http.Request, p *Problem, reason error) *Reply {
	q.m.observe(r.Context(), Event{Kind: EventRefused, Method: r.Method, Route: q.pattern, Recovery: q.recovery(),
		Code: p.Code, Err: reason})
	reply := q.m.refuse(r, p)
	if q.route != nil {
		reply.within = q.route.Deadline
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
// came in chunks, or a decoder is in front), Admit cannot notice that a part is missing. copies are those of the body that
// the framework shows to the handler instead of the body: each must equal what Admit reads.
func (m *Module) Admit(r *http.Request, pattern string, p Principal, copies ...[]byte) (*http.Request, *Reply) {
	return m.newRequest(r, pattern).admitApart(r, p, copies)
}

// admitApart is admit for an interceptor that is mounted separately.
func (q *request) admitApart(r *http.Request, p Principal, copies [][]byte) (*http.Request, *Reply) {
	next, reply := q.admit(r, p, copies)
	if q.admitted {
		next = r.WithContext(q)
		q.giveBody(next)
	}
	return next, reply
}

// admit returns r itself, except in shadow.
func (q *request) admit(r *http.Request, p Principal, copies [][]byte) (*http.Request, *Reply) {
	if reply := q.authorize(r, p); reply != nil {
		return nil, reply
	}
	if !q.guarded {
		return r, nil
	}
	q.Context, q.principal = r.Context(), p
	if q.shadow {
		return q.admitShadow(r, copies), nil
	}
	if problem := q.admitCommand(r, copies); problem != nil {
		return nil, q.refuse(r, problem)
	}
	q.admitted = true
	return r, nil
}

func (q *request) admitCommand(r *http.Request, copies [][]byte) *Problem {
	if q.passedGuard(r) {
		return secondGuard()
	}
	if problem := q.takeKey(r); problem != nil {
		return problem
	}
	_, problem := q.takeCommand(r, copies)
	return problem
}

// takeKey takes the key out of the request (contract K).
func (q *request) takeKey(r *http.Request) *Problem {
	key, problem := q.m.keyOf(r, q.route.KeyFormat)
	if problem != nil {
		return problem
	}
	q.id, q.keyMade = q.m.cfg.Scoping.RecordID(q.principal, key), keyMade(key)
	q.echo = r.Header[q.m.cfg.Header]
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
func (q *request) takeCommand(r *http.Request, copies [][]byte) ([]byte, *Problem) {
	if r.Form != nil || r.PostForm != nil || r.MultipartForm != nil {
		return nil, readBefore()
	}
	body, problem := q.readBody(r, q.route.MaxBody)
	if problem != nil {
		if problem.Code == CodeBodyUnreadable {
			problem = q.m.withRetry(problem) // it was lost on its way (C-8)
		}
		return body, problem
	}
	for _, copied := range copies {
		if !bytes.Equal(copied, body) {
			return body, readBefore()
		}
	}
	if command.PartsAbove(r.Header.Get("Content-Type"), body) {
		return body, NewProblem(CodeBodyTooLarge, fmt.Sprintf("the multipart body has more than %d parts, more than %d header "+
			"lines, or more than %d bytes of header in a part; nothing was run",
			command.MaxParts, command.MaxPartHeaders, command.MaxPartHeader))
	}
	q.command = command.Of(r, q.route.CommandHeaders, body)
	hash, hashErr := q.command.Hash(command.Version)
	if hashErr != nil {
		return body, NewProblem(CodeMisconfigured, hashErr.Error())
	}
	q.hash = hash
	return body, nil
}

// passedGuard reports whether a guard has seen the request already. Inside an attempt, the context may have only the
// attempt.
func (q *request) passedGuard(r *http.Request) bool {
	return q.inside || requestFrom(r.Context()) != nil
}

// secondGuard is the answer to a request that meets a guard twice (O-4). It does not declare the attempt around it
// NotApplied, because a handler may have changed something before it passed the request on.
func secondGuard() *Problem {
	return NewProblem(CodeMisconfigured, "this route is guarded twice; mount the guards once, on the group or on the route")
}

// readBody reads the whole body, which may have at most limit bytes (H-5). With a problem it returns what it has read. The
// announced length is only a hint if outer middleware may have decoded the body. Otherwise a shorter body means that a part
// of it was read before (O-6).
func (q *request) readBody(r *http.Request, limit int64) ([]byte, *Problem) {
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
			return whole, q.unreadable(err)
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
func (q *request) unreadable(err error) *Problem {
	if q.statusOf(err) == http.StatusRequestEntityTooLarge { // a cap of outer middleware
		return bodyTooLarge()
	}
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		return readBefore()
	}
	return NewProblem(CodeBodyUnreadable, "the request body broke off; nothing was run")
}

// statusOf returns the status that an error of reading stands for; 0 for none.
func (q *request) statusOf(err error) int {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return http.StatusRequestEntityTooLarge
	}
	if own, ok := errors.AsType[interface {
		error
		StatusCode() int
	}](err); ok {
		return own.StatusCode()
	}
	if q.x == nil {
		return 0
	}
	return q.x.StatusOf(err)
}

func bodyTooLarge() *Problem {
	return NewProblem(CodeBodyTooLarge, "the request body is larger than this route takes; nothing was run")
}
