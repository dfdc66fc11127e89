package core

import (
	"context"
	"maps"
	"net/http"
	"slices"
)

// Defaults and bounds that tests compare with.
const (
	DefaultInvalidRetention = defaultInvalidRetention
	DefaultMaxClockSkew     = defaultMaxClockSkew
	DefaultMaxWaiters       = defaultMaxWaiters
	DefaultRekeyWindow      = defaultRekeyWindow
	DefaultResumeFor        = defaultResumeFor
	DefaultRetryAfter       = defaultRetryAfter
	DefaultSweepBatch       = defaultSweepBatch
	DefaultSweepEvery       = defaultSweepEvery
	MaxShadow               = maxShadow
	MaxStepKeys             = maxStepKeys
	MaxStepName             = maxStepName
)

// AtInterceptor is a request that an interceptor has reserved the context of.
type AtInterceptor struct{ *request }

// ReserveFor reserves the context of a request.
func (m *Module) ReserveFor(r *http.Request, pattern string, key any) (AtInterceptor, *Reply) {
	q := m.newRequest(r, pattern)
	return AtInterceptor{q}, q.reserve(r, key)
}

// Admit, Begin and Release go on with the request.
func (h AtInterceptor) Admit(r *http.Request, p Principal) (*http.Request, *Reply) {
	return h.admit(r, p, nil)
}
func (h AtInterceptor) Begin(r *http.Request, p Principal) (*Attempt, *Reply) { return h.begin(r, p) }
func (h AtInterceptor) Release()                                              { h.unreserve() }

// Abandoned reports whether the framework's context belongs to another request by now.
func (a *Attempt) Abandoned(r *http.Request, header func() http.Header) bool {
	return a.abandoned(r, header)
}

// ForgetRoute takes the route of h out of the table: who asks for it again finds none.
func (h AtInterceptor) ForgetRoute() { clear(h.m.routes) }

// ForgetRoles gives the route of h roles that nobody has: who checks them again refuses.
func (h AtInterceptor) ForgetRoles() { h.route.Roles = []string{"nobody"} }

// WaitedFor names the contexts of the attempt around ctx that somebody has waited for: only they have got timers.
func WaitedFor(ctx context.Context) (names []string) {
	a := attemptFrom(ctx)
	for _, of := range []struct {
		name string
		ctx  *lazyContext
	}{{"claim", &a.req.call}, {"handler", &a.ctx}, {"completion", &a.completing}} {
		of.ctx.mu.Lock()
		if of.ctx.made != nil {
			names = append(names, of.name)
		}
		of.ctx.mu.Unlock()
	}
	return names
}

// KnowsRoute reports whether a route is in the table, or was.
func (m *Module) KnowsRoute(method, pattern string) bool { return m.knowsRoute(method, pattern) }

// Codes returns every code in the table.
func Codes() []Code { return slices.Collect(maps.Keys(problemKinds)) }
