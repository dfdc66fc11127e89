package core

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/internal/names"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// Config configures a [Module]. Store is required. Without Routes, Policy.Recovery is required.
type Config struct {
	// Store keeps the records.
	Store Store
	// Routes is the table of the app's routes. With it, an unsafe route that is not in the table is refused (O-4).
	Routes Routes
	// Policy is the module's own policy. Without Routes it applies to every unsafe route behind the guards, and must have no
	// Exempt or Unguarded. With Routes it supplies the value of zero fields in their policies, and must have no Recovery,
	// Roles, Exempt, Unguarded, Review, ShadowUntil, Formerly or Streaming.
	Policy Policy

	// Scoping says what belongs to the scope of a key in addition to issuer, tenant and subject (S-4). Default: nothing.
	Scoping Scoping
	// Header is the name of the key's header, default "Idempotency-Key" (K-7). Names of headers that proxies fill in, such as
	// X-Request-Id and Traceparent, are refused (K-10).
	Header string
	// ReplayHeaders names answer headers that are recorded in addition to the contract's own list. Set-Cookie,
	// WWW-Authenticate, Date, rate-limit and hop-by-hop headers are refused.
	ReplayHeaders []string
	// OperatorRoles are the roles of operators, each with the issuer that may give it (S-6). An operator may see and settle
	// the operations of all principals of its own issuer and tenant (M-7, X-7, S-5); without a tenant, those of principals
	// without a tenant. Default none.
	OperatorRoles []IssuerRole
	// SupervisorRoles are the roles of operators that may see and settle the operations of every issuer and tenant of this
	// service, each with the issuer that may give it. Default none.
	SupervisorRoles []IssuerRole

	// RetryAfter is the Retry-After of problems that a repeat may solve, default 2 s. Of a crowded store it is longer, up to
	// 30 s, by the length of its line.
	RetryAfter time.Duration
	// ClaimTimeout limits each call of the store for which a request waits, default 1 s. At the end of an attempt, including
	// COMMIT, the module repeats the call, and the request waits up to 10 s.
	ClaimTimeout time.Duration
	// MaxWaiters caps the repeats that wait for a running attempt in this instance, default 256. Of these, one caller gets an
	// eighth, at least 4, and one running command 4: the others hear in_flight at once (M-2).
	MaxWaiters int
	// MaxClockSkew is how far the store's clock and this process's clock may be apart: 1 min to 12 h, default 1 h. If they
	// are further apart, nothing that has expired is taken over, settled or dropped, no Park or Resume command starts, and
	// the observer gets EventClockSkew (T-5).
	MaxClockSkew time.Duration
	// Now is this process's clock, which is compared with the store's (MaxClockSkew); default [time.Now]. A test that moves
	// the store's clock passes the same clock here.
	Now func() time.Time
	// SweepEvery is the time between two sweeps of Run, with a jitter of a tenth; default 1 min (T-3).
	SweepEvery time.Duration
	// SweepBatch is the greatest number of records that a sweep touches at a time, default 500. If the store is slow, a
	// sweep makes its batches smaller, so that requests do not wait for them.
	SweepBatch int

	// Resume lets Run continue Resume operations whose attempt was lost, by "METHOD /pattern" as in Routes: see [Resumer].
	// The operations of a route that is not here are continued only by their client's next repeat, and lose no attempt.
	Resume map[string]Resumer
	// Reconcile, if set, is called by Run for every unknown operation of a route of the table: see [Reconciler].
	Reconcile Reconciler
	// Observer, if set, gets all events: see [Event] and [Tracer]. [Observers] combines several observers.
	Observer Observer
	// Profile is the standard that the problems follow where standards differ: [AUTH19], the default, or [IETF].
	Profile Profile
	// ProblemBase is the first part of the "type" of every problem; the code follows. Make it the address of a page of your
	// own: "https://shop.example/problems/" or "https://shop.example/problems#". It is an absolute URI that ends with "/",
	// "#" or ":". Default "tag:auth19.dev,2026:idem/", a name without a page; with [IETF], PolicyURL and "#". The 401 of
	// JWTGuard and Bridge always has that name, because these guards have no module.
	ProblemBase string
	// PolicyURL is the address at which the app serves PolicyHandler of core/openapi, as clients see it: a path,
	// "/idempotency", or an http(s) URL. Every problem then names it: Link: </idempotency>; rel="describedby". The 401 of
	// JWTGuard and Bridge does not, because these guards have no module. Default none.
	PolicyURL string
	// RenderProblem, if set, renders problems in the app's own way; nil means [Problem.Reply]. Status and code should
	// stay what they are (P-1); a status that is none, such as 0, is replaced by the problem's.
	RenderProblem func(r *http.Request, p *Problem) *Reply
}

// Module is the idempotency of one app: the table of its routes and the store of its records. It is safe for use by
// any number of goroutines.
type Module struct {
	cfg Config
	// operations are Config.Store.
	operations store.Operations

	routes  map[routeKey]*route
	former  map[routeKey]*route // by the patterns of Policy.Formerly
	own     *route              // the policy of every unsafe route when there is no table; nil with one
	replays map[string]bool     // canonical names of the headers that are recorded
	waiters places
	running atomic.Bool   // Run is under way
	pulses  pulses        // of the loops of Run
	skewed  atomic.Int64  // when the clocks were last said to be too far apart, in nanoseconds since 1970
	scoped  atomic.Bool   // the store has said that Scoping is what it was
	asking  chan struct{} // holds a token while the store is asked
	ages    knownAges     // what the store has said of the ages of timed keys
	// timedFor is how long the records of timed keys stay after the end of their attempt, at least; 0 without such keys.
	timedFor  time.Duration
	service   []byte // Scoping.service, hashed once
	instance  store.Instance
	orphans   orphans
	outage    outage
	readiness readiness
	inUse     contextsInUse
	tracer    Tracer   // Config.Observer, if it is one
	unwritten sync.Map // routeKey -> *atomic.Int64: successes whose transaction carried no write
	failing   sync.Map // routeKey -> *atomic.Int64: refusals behind a statement that had failed
	table     atomic.Pointer[[]string]
	calls     names.Seen // for Operator.Find
	refNames  names.Seen // for Operator.Referred

	wake      chan struct{} // of Run: there is something to go on with
	strangers sync.Map      // stranger -> time.Time: when Run last told of its operations

	resuming, reconciling isolation // the operations that Config.Resume and Config.Reconcile are working on
}

// New checks the configuration and returns a module. It starts no goroutine and sends nothing to the database. The error
// names the fields that are wrong, and says how to correct them. Without a Store it names only that.
func New(cfg Config) (*Module, error) {
	cfg.Header = cmp.Or(cfg.Header, wire.HeaderKey)
	cfg.RetryAfter = cmp.Or(cfg.RetryAfter, defaultRetryAfter)
	cfg.ClaimTimeout = cmp.Or(cfg.ClaimTimeout, store.DefaultClaimTimeout)
	cfg.MaxWaiters = cmp.Or(cfg.MaxWaiters, defaultMaxWaiters)
	cfg.MaxClockSkew = cmp.Or(cfg.MaxClockSkew, defaultMaxClockSkew)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.SweepEvery = cmp.Or(cfg.SweepEvery, defaultSweepEvery)
	cfg.SweepBatch = cmp.Or(cfg.SweepBatch, defaultSweepBatch)
	cfg.ProblemBase = cmp.Or(cfg.ProblemBase, cfg.defaultBase())

	m := &Module{cfg: cfg, asking: make(chan struct{}, 1), wake: make(chan struct{}, 1), service: cfg.Scoping.service()}
	rand.Read(m.instance[:]) // never fails since Go 1.24
	m.tracer, _ = cfg.Observer.(Tracer)
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if cfg.Store == nil {
		bad("Store: is required; gormstore.New(db) for PostgreSQL and SQLite")
		return nil, configError(errs)
	}
	var able bool
	if m.operations, able = cfg.Store.(store.Operations); !able {
		bad("Store: %T lists and settles no operations (store.Operations), and with every recovery one can become unknown; use "+
			"gormstore, or implement it", cfg.Store)
	}
	own := cfg.Policy
	switch {
	case cfg.Routes == nil:
		filled := own.withDefaults(Policy{})
		m.own = &route{Policy: filled}
		if own.Exempt != "" || own.Unguarded != "" {
			bad("Policy.Exempt: without Routes everything would be exempt; declare the routes")
		}
		if own.Formerly != nil {
			bad("Policy.Formerly: without Routes every pattern has this policy; leave it out")
		}
		for _, err := range append(filled.check("", cfg.Store), own.unused(filled)...) {
			bad("Policy: %w", err)
		}
	case own.Recovery != 0 || own.Formerly != nil || own.Exempt != "" || own.Unguarded != "" || own.Roles != nil ||
		own.Review != nil || own.Streaming || !own.ShadowUntil.IsZero():
		bad("Policy: with Routes the module's own policy only fills in numbers; set Recovery, Roles, Exempt, Unguarded, Review, " +
			"ShadowUntil and Streaming on each route, and Formerly")
	default:
		inherited := own.withDefaults(Policy{}).check(http.MethodGet, cfg.Store) // what every route may override
		for _, err := range inherited {
			bad("Policy: %w", err)
		}
		routes, former, err := cfg.Routes.compile(own, cfg.Store, inherited)
		if err != nil {
			errs = append(errs, err)
		}
		m.routes, m.former = routes, former
	}
	for name, resume := range cfg.Resume {
		method, pattern, _ := strings.Cut(name, " ")
		switch r, _ := m.route(method, pattern); {
		case r == nil || r.Recovery != Resume:
			bad("Resume[%q]: is no route with the recovery core.Resume; write it as in Routes: \"METHOD /pattern\"", name)
		case resume == nil:
			bad("Resume[%q]: is nil; leave out a route that only its clients go on with", name)
		}
	}
	if !isToken(cfg.Header) {
		bad("Header: %q is not a header name", cfg.Header)
	}
	m.cfg.Header = textproto.CanonicalMIMEHeaderKey(cfg.Header)
	if filledIn[m.cfg.Header] {
		bad("Header: %s is written by proxies and middleware, with a new value for each repeat; a key is chosen by the client, "+
			"once for each command", m.cfg.Header)
	}
	m.replays = maps.Clone(replayable)
	for _, name := range cfg.ReplayHeaders {
		switch name = textproto.CanonicalMIMEHeaderKey(name); {
		case !isToken(name):
			bad("ReplayHeaders: %q is not a header name", name)
		case neverReplayed(name):
			bad("ReplayHeaders: %s belongs to one answer only and is never replayed", name)
		default:
			m.replays[name] = true
		}
	}
	if err := checkRoles("OperatorRoles", cfg.OperatorRoles); err != nil {
		errs = append(errs, err)
	}
	if err := checkRoles("SupervisorRoles", cfg.SupervisorRoles); err != nil {
		errs = append(errs, err)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"RetryAfter", cfg.RetryAfter}, {"ClaimTimeout", cfg.ClaimTimeout}, {"SweepEvery", cfg.SweepEvery}} {
		if d.value < 0 {
			bad("%s: %v is negative", d.field, d.value)
		}
	}
	if cfg.MaxClockSkew < minClockSkew || cfg.MaxClockSkew > maxClockSkew {
		bad("MaxClockSkew: %v is not between %v and %v", cfg.MaxClockSkew, minClockSkew, maxClockSkew)
	}
	for _, route := range m.allRoutes() {
		route.gates = m.gatesOf(route.Policy)
	}
	if err := m.checkProfile(); err != nil {
		errs = append(errs, err)
	}
	if err := m.checkTimedKeys(); err != nil {
		errs = append(errs, err)
	}
	if err := checkProblemBase(cfg.ProblemBase); err != nil {
		bad("ProblemBase: %w", err)
	}
	if err := cfg.Profile.check(cfg.ProblemBase); err != nil {
		bad("Profile: %w", err)
	}
	if err := checkPolicyURL(cfg.PolicyURL); err != nil {
		bad("PolicyURL: %w", err)
	}
	if cfg.MaxWaiters < 0 {
		bad("MaxWaiters: %d is negative", cfg.MaxWaiters)
	}
	if cfg.SweepBatch < 0 {
		bad("SweepBatch: %d is negative", cfg.SweepBatch)
	}
	if len(errs) > 0 {
		return nil, configError(errs)
	}
	return m, nil
}

func configError(errs []error) error { return fmt.Errorf("idem: core.New: %w", errors.Join(errs...)) }

// isToken reports whether s is a token of RFC 9110, section 5.6.2, as header names are.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// route finds the policy of a request. Without a route and a problem, the request passes unchanged: its method is safe
// and asks for no role, or the router has no such path (K-8).
func (m *Module) route(method, pattern string) (*route, *Problem) {
	if pattern == "" {
		return nil, nil
	}
	if m.own != nil {
		if isSafe(method) {
			return nil, nil
		}
		return m.own, nil
	}
	r := m.routes[routeKey{method, pattern}]
	if r == nil && method == http.MethodHead {
		r = m.routes[routeKey{http.MethodGet, pattern}] // many routers answer it with the handler of GET
	}
	if r == nil && !isSafe(method) {
		return nil, NewProblem(CodeRouteUndeclared, "this route is not in the table of routes; declare it with a recovery "+
			"or as exempt")
	}
	return r, nil
}

// allRoutes returns the routes of the table, or the module's own policy if there is no table.
func (m *Module) allRoutes() []*route {
	if m.own != nil {
		return []*route{m.own}
	}
	return slices.Collect(maps.Values(m.routes))
}

// Declared lists the table, sorted by pattern and then by method, with the defaults filled in: for audits (D-2). It is
// empty if the module has no table.
func (m *Module) Declared() []DeclaredRoute {
	declared := make([]DeclaredRoute, 0, len(m.routes))
	for key, r := range m.routes {
		declared = append(declared, DeclaredRoute{Method: key.method, Pattern: key.pattern, Policy: r.Policy})
	}
	slices.SortFunc(declared, func(a, b DeclaredRoute) int {
		return cmp.Or(cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Method, b.Method))
	})
	return declared
}

// DeclaredRoute is one line of the table of routes, with the defaults filled in.
type DeclaredRoute struct {
	Method, Pattern string
	Policy          Policy
	// Problems are those that requests to the route may get, sorted by status and then by code. Only [Module.Describe] fills
	// them in.
	Problems []DescribedProblem
}

// Guarded reports whether requests need a key.
func (d DeclaredRoute) Guarded() bool { return d.Policy.Recovery != 0 }

func (m *Module) observe(ctx context.Context, e Event) {
	if m.cfg.Observer != nil {
		observe(ctx, m.cfg.Observer, e)
	}
}

// refuse renders a problem as the reply to r. If the outcome is unknown, the reply says so in every rendering (C-2).
func (m *Module) refuse(r *http.Request, p *Problem) *Reply {
	p.Status, p.Type = m.cfg.Profile.kind(p.Code).status, m.cfg.ProblemBase+string(p.Code)
	reply := p.Reply()
	if own := m.render(r, p); own != nil {
		reply = new(*own) // the app may hand out one reply many times
		if reply.Status < http.StatusOK || reply.Status > 999 {
			reply.Status = p.Status // net/http panics at such a status, and Gin sends 200
		}
	}
	if m.cfg.PolicyURL != "" {
		reply.Header = describedBy(reply.Header, m.cfg.PolicyURL)
	}
	reply.problem = p.Code
	if p.unknown {
		reply.result = resultUnknown
	}
	return reply
}

// render returns the app's own rendering; nil if there is none. A panic of the app's function must not replace the
// refusal, because the answer may have to say that the outcome is unknown.
func (m *Module) render(r *http.Request, p *Problem) (own *Reply) {
	if m.cfg.RenderProblem == nil {
		return nil
	}
	defer func() { _ = recover() }() // own is nil then
	return m.cfg.RenderProblem(r, p)
}

// withRetry adds the module's Retry-After to a problem that a repeat may solve.
func (m *Module) withRetry(p *Problem) *Problem {
	p.RetryAfter = m.cfg.RetryAfter
	return p
}

// policyOf returns the policy of a record's route, also under a former pattern. If this release does not know the route,
// known is false, and the policy has the defaults.
func (m *Module) policyOf(method, pattern string) (policy Policy, known bool) {
	if r, _ := m.route(method, pattern); r != nil {
		return r.Policy, true
	}
	if r := m.former[routeKey{method, pattern}]; r != nil {
		return r.Policy, true
	}
	return Policy{}.withDefaults(m.cfg.Policy), m.own != nil
}

// knowsRoute reports whether a route is in this release's table, or a route of the table names its pattern in
// Policy.Formerly. Without a table all routes are known. Operations of another route are neither continued nor given up,
// and Config.Reconcile is not asked for them.
func (m *Module) knowsRoute(method, pattern string) bool {
	_, known := m.policyOf(method, pattern)
	return known
}
