package core_test

import (
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// park is a configuration that is right but for what a test changes.
func park(change func(*core.Config)) core.Config {
	cfg := core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}}
	change(&cfg)
	return cfg
}

// table is a right configuration with a table of one money route.
func table(change func(*core.Policy)) core.Config {
	policy := core.Policy{Recovery: core.Park}
	change(&policy)
	return core.Config{Store: memstore.New(), Routes: core.Routes{"POST /pay": policy}}
}

func routes(names ...string) core.Config {
	cfg := core.Config{Store: memstore.New(), Routes: core.Routes{}}
	for _, name := range names {
		cfg.Routes[name] = core.Policy{Recovery: core.Park}
	}
	return cfg
}

func exempt(reason string) core.Config {
	return core.Config{Store: memstore.New(), Routes: core.Routes{"PUT /x": {Exempt: reason}}}
}

// ietf asks for the profile of the draft.
func ietf(problemBase, policyURL string) core.Config {
	return park(func(c *core.Config) { c.Profile, c.ProblemBase, c.PolicyURL = core.IETF, problemBase, policyURL })
}

func policy(change func(*core.Policy)) core.Config {
	return park(func(cfg *core.Config) { change(&cfg.Policy) })
}

// CONTRACT R-3, O-4, R-7, D-2, K-7, K-5, K-3, H-5, M-2
func TestConfiguration(t *testing.T) {
	t.Run("what all routes inherit is named once; what a route sets itself is named for the route", func(t *testing.T) {
		cfg := routes("POST /a", "POST /b")
		cfg.Policy.Retention = time.Hour
		_, err := core.New(cfg)
		require.EqualError(t, err, "idem: core.New: Policy: Retention: 1h0m0s is not between 24h0m0s and 72h0m0s")

		cfg.Routes["POST /b"] = core.Policy{Recovery: core.Park, Retention: 2 * time.Hour}
		_, err = core.New(cfg)
		require.EqualError(t, err, "idem: core.New: Policy: Retention: 1h0m0s is not between 24h0m0s and 72h0m0s\n"+
			`Routes["POST /b"]: Retention: 2h0m0s is not between 24h0m0s and 72h0m0s`)
	})
	t.Run("inherited values that a route does not use", func(t *testing.T) {
		newModule(t, core.Config{Store: memstore.New(), Policy: core.Policy{KeyAge: time.Hour, MaxAttempts: 5, Unwritten: core.UnwrittenRefused},
			Routes: core.Routes{"POST /a": {Recovery: core.Park}, "POST /b": {Recovery: core.Resume, MaxAttempts: 3},
				"POST /c": {Recovery: core.Park, KeyFormat: core.TimedKey, KeyAge: 2 * time.Hour}}})
		newModule(t, core.Config{Store: memstore.New(), Policy: core.Policy{KeyFormat: core.TimedKey},
			Routes: core.Routes{"POST /a": {Recovery: core.Park, KeyAge: time.Hour}}})
	})
	t.Run("forbidden replay headers", func(t *testing.T) {
		for _, name := range append([]string{"set-cookie", "Idempotent-Replayed", "Idempotency-Result", "Authentication-Info",
			"Proxy-Connection", "X-RateLimit-Limit-Day", "Set-Cookie2"}, neverRecorded...) {
			_, err := core.New(park(func(cfg *core.Config) { cfg.ReplayHeaders = []string{"X-Fine", name} }))
			require.ErrorContains(t, err, "ReplayHeaders: ", name)
		}
	})
	t.Run("syntax of routes", func(t *testing.T) {
		for _, name := range []string{"", "POST", "/pay", "POST/pay", "post /pay", "POST  /pay", " POST /pay", "POST /pay ", " /pay",
			"POST pay", "POST /a b", "POST\t/pay", "POST /a\tb", "PO(ST /pay"} {
			_, err := core.New(routes(name, "POST /fine"))
			require.ErrorContains(t, err, `want "METHOD /pattern", one space between`, name)
		}
		for _, name := range []string{"POST /", "POST /v1/payments/:id/refunds", "DELETE /*", "PURGE /{id...}", "PUT /ä"} {
			_, err := core.New(routes(name))
			require.NoError(t, err, name)
		}
	})
	t.Run("a short retention must not make the default of another field an error", func(t *testing.T) {
		for _, cfg := range []core.Config{
			policy(func(p *core.Policy) { p.Retention = 24 * time.Hour }),
			policy(func(p *core.Policy) { p.Retention = 72 * time.Hour }),
			policy(func(p *core.Policy) { p.Retention, p.InvalidRetention = 24*time.Hour, 24*time.Hour }),
			policy(func(p *core.Policy) { p.InvalidRetention = time.Minute }),
			policy(func(p *core.Policy) { p.Wait, p.Lease, p.Deadline = 10*time.Second, time.Hour, 24*time.Hour }),
			policy(func(p *core.Policy) { p.Wait, p.Lease, p.Deadline = 1, time.Second, time.Second }),
			{Store: memstore.New(), Routes: core.Routes{}},
		} {
			newModule(t, cfg)
		}
	})
	t.Run("declared", func(t *testing.T) {
		module := newModule(t, core.Config{Store: memstore.New(),
			Policy: core.Policy{Retention: 24 * time.Hour, Lease: 5 * time.Second, Deadline: 6 * time.Second, Wait: time.Second,
				Tombstone: 25 * time.Hour, InvalidRetention: time.Hour, MaxBody: 1, MaxAnswer: 2, KeyFormat: core.UUIDKey,
				CommandHeaders: []string{"X-Account"}, RekeyWindow: time.Hour, MaxAttempts: 3, ResumeFor: time.Hour,
				KeyAge: 2 * time.Hour},
			Routes: core.Routes{
				"PUT /b":   {Recovery: core.Park, Retention: 48 * time.Hour, CommandHeaders: []string{}},
				"POST /b":  {Exempt: "moves no money"},
				"GET /a":   {Roles: []string{"operator"}},
				"PATCH /c": {Recovery: core.Park, MaxBody: math.MaxInt64},
			}})
		var names []string
		guarded := map[string]bool{}
		for _, d := range module.Declared() {
			name := d.Method + " " + d.Pattern
			names = append(names, name)
			guarded[name] = d.Guarded()
		}
		require.Equal(t, []string{"GET /a", "POST /b", "PUT /b", "PATCH /c"}, names)
		require.Equal(t, map[string]bool{"GET /a": false, "POST /b": false, "PUT /b": true, "PATCH /c": true}, guarded)

		own := core.Policy{Recovery: core.Park, Retention: 24 * time.Hour, Lease: 5 * time.Second, Deadline: 6 * time.Second,
			Wait: time.Second, Tombstone: 25 * time.Hour, InvalidRetention: time.Hour, MaxBody: math.MaxInt64, MaxAnswer: 2,
			KeyFormat: core.UUIDKey, CommandHeaders: []string{"X-Account"}, RekeyWindow: time.Hour, MaxAttempts: 3, ResumePause: 5 * time.Second,
			ResumeFor: time.Hour, KeyAge: 2 * time.Hour, Unwritten: core.UnwrittenEvent}
		require.Equal(t, own, module.Declared()[3].Policy)
		own.Retention, own.MaxBody, own.CommandHeaders = 48*time.Hour, 1, []string{}
		require.Equal(t, own, module.Declared()[2].Policy)

		require.Empty(t, newModule(t, park(func(*core.Config) {})).Declared())
	})
	t.Run("header of another name", func(t *testing.T) {
		a := newApp(t, core.Config{Header: "paypal-request-id"}, created)
		with := func(r *http.Request) { r.Header.Set("PayPal-Request-Id", "k-1") }
		w := a.post("", `{}`, with)
		require.Equal(t, http.StatusCreated, w.Code)
		require.Equal(t, []string{"k-1"}, w.Header()["Paypal-Request-Id"])
		w = a.post("", `{}`, with)
		require.Equal(t, "reused", w.Header().Get("Idempotency-Result"))
		require.Equal(t, []string{"k-1"}, w.Header()["Paypal-Request-Id"])
		require.Empty(t, w.Header().Get("Idempotency-Key"))
		requireProblem(t, a.post("k-1", `{}`), http.StatusBadRequest, core.CodeKeyMissing)
		requireProblem(t, a.post("", `{}`, with, func(r *http.Request) { r.URL.RawQuery = "paypal_request_id=1" }),
			http.StatusBadRequest, core.CodeKeyInURL)
	})
	inBubble(t, "what is configured is what holds", func(t *testing.T) {
		const key = "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c"
		store := newFaultStore(memstore.New())
		a := newApp(t, core.Config{Store: store, RetryAfter: 1500 * time.Millisecond, ClaimTimeout: 3 * time.Second,
			Policy: core.Policy{KeyFormat: core.UUIDKey, MaxBody: 4, Deadline: 7 * time.Second, Lease: 6 * time.Second},
			Routes: core.Routes{"POST " + pattern: {Recovery: core.Park, MaxBody: 2}}},
			func(_ http.ResponseWriter, r *http.Request) {
				deadline, _ := r.Context().Deadline()
				require.Equal(t, 7*time.Second, time.Until(deadline))
			})
		requireProblem(t, a.post("k-1", `{}`), http.StatusBadRequest, core.CodeKeyInvalid)
		requireProblem(t, a.post(key, `{ }`), http.StatusRequestEntityTooLarge, core.CodeBodyTooLarge)
		require.Equal(t, http.StatusOK, a.post(key, `{}`).Code)
		rec := find(t, store, key)
		require.Equal(t, 6*time.Second, rec.LeaseUntil.Sub(rec.CreatedAt))
		require.Equal(t, 7*time.Second, rec.Deadline.Sub(rec.CreatedAt))

		store.on("claim", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		begun := time.Now()
		w := a.post(strings.Replace(key, "0193", "0194", 1), `{}`)
		requireProblem(t, w, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		require.Equal(t, 3*time.Second, time.Since(begun))
	})
}

// CONTRACT O-5, T-2, X-5, R-3, O-4, K-10, P-2
func TestConfigurationErrors(t *testing.T) {
	now := time.Now()
	type P = *core.Policy
	type C = *core.Config
	for name, test := range map[string]struct {
		cfg  core.Config
		want []string // each names the field, or the fix
	}{
		"nothing":      {core.Config{}, []string{"Store: is required", "gormstore.New"}},
		"store alone":  {core.Config{Store: memstore.New()}, []string{"Policy: Recovery: choose one", "core.Rollback", "core.Resume", "core.Park"}},
		"no recovery":  {table(func(p P) { p.Recovery = 0 }), []string{`Routes["POST /pay"]: Recovery: choose one`, "core.Rollback", "core.Resume", "core.Park", "Exempt"}},
		"odd recovery": {policy(func(p P) { p.Recovery = 9 }), []string{"Recovery: 9 is none of", "core.Park"}},
		"rollback on memstore": {policy(func(p P) { p.Recovery = core.Rollback }), []string{
			"Recovery: Rollback needs a store", "*memstore.Store does not", "gormstore", "core.Park"}},
		"rollback on memstore, in a table": {table(func(p P) { p.Recovery = core.Rollback }), []string{
			`Routes["POST /pay"]: Recovery: Rollback needs a store`}},

		"resume without steps": {core.Config{Store: struct{ store.Operations }{memstore.New()}, Policy: core.Policy{Recovery: core.Resume}},
			[]string{"Recovery: Resume needs a store that keeps steps", "core.Park"}},
		"exempt and recovery":      {table(func(p P) { p.Exempt = "x" }), []string{`Routes["POST /pay"]: Exempt: `, "not both"}},
		"exempt, to be filled in":  {exempt("TODO"), []string{`Routes["PUT /x"]: Exempt: "TODO" is no reason`, "choose a Recovery"}},
		"exempt, filled in later":  {exempt("todo: ask Ada"), []string{`Exempt: "todo: ask Ada" is no reason`}},
		"exempt by a word":         {exempt("login"), []string{`Exempt: "login" is no reason`, "in a sentence"}},
		"resumes a park route":     {park(func(c C) { c.Resume = map[string]core.Resumer{"POST /pay": nil} }), []string{`Resume["POST /pay"]: is no route with the recovery core.Resume`}},
		"resumes nothing":          {core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Resume}, Resume: map[string]core.Resumer{"POST /pay": nil}}, []string{`Resume["POST /pay"]: is nil`}},
		"resumes no route":         {core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Resume}, Resume: map[string]core.Resumer{"/pay": nil}}, []string{`Resume["/pay"]: is no route`, "METHOD /pattern"}},
		"all exempt":               {policy(func(p P) { p.Recovery, p.Exempt = 0, "x" }), []string{"Policy.Exempt: ", "declare the routes"}},
		"safe with recovery":       {routes("GET /pay"), []string{`Routes["GET /pay"]: Recovery: GET is a safe method`, "leave Recovery out"}},
		"safe, exempt by a word":   {core.Config{Store: memstore.New(), Routes: core.Routes{"HEAD /pay": {Exempt: "x"}}}, []string{`Exempt: "x" is no reason`}},
		"safe and unguarded":       {core.Config{Store: memstore.New(), Routes: core.Routes{"HEAD /pay": {Unguarded: "waits for release 12"}}}, []string{"Unguarded: HEAD is a safe method"}},
		"unguarded by a word":      {core.Config{Store: memstore.New(), Routes: core.Routes{"PUT /x": {Unguarded: "TODO"}}}, []string{`Routes["PUT /x"]: Unguarded: "TODO" is no reason`, "in a sentence"}},
		"unguarded and recovery":   {table(func(p P) { p.Unguarded = "waits for release 12" }), []string{"Unguarded: ", "neither exempt nor has a Recovery"}},
		"unguarded and exempt":     {core.Config{Store: memstore.New(), Routes: core.Routes{"PUT /x": {Unguarded: "waits for it", Exempt: "moves no money"}}}, []string{"neither exempt"}},
		"all unguarded":            {policy(func(p P) { p.Recovery, p.Unguarded = 0, "waits for it" }), []string{"Policy.Exempt: "}},
		"own unguarded, a table":   {ownWithTable(func(p P) { p.Unguarded = "waits for it" }), []string{"Policy: with Routes"}},
		"own recovery and a table": {ownWithTable(func(p P) { p.Recovery = core.Park }), []string{"Policy: with Routes", "set Recovery, Roles, Exempt, Unguarded, Review, ShadowUntil and Streaming on each route"}},
		"own roles and a table":    {ownWithTable(func(p P) { p.Roles = []string{"a"} }), []string{"Policy: with Routes"}},
		"own exempt and a table":   {ownWithTable(func(p P) { p.Exempt = "x" }), []string{"Policy: with Routes"}},
		"own stream and a table":   {ownWithTable(func(p P) { p.Streaming = true }), []string{"Policy: with Routes"}},
		"own review and a table": {ownWithTable(func(p P) {
			p.Review = func(context.Context, core.Principal, core.Record) error { return nil }
		}), []string{"Policy: with Routes"}},

		"retention too short":  {policy(func(p P) { p.Retention = 24*time.Hour - 1 }), []string{"Retention: 23h59m59.999999999s is not between 24h0m0s and 72h0m0s"}},
		"retention too long":   {table(func(p P) { p.Retention = 72*time.Hour + 1 }), []string{"Retention: 72h0m0.000000001s is not between"}},
		"retention negative":   {policy(func(p P) { p.Retention = -1 }), []string{"Retention: -1ns"}},
		"tombstone too short":  {policy(func(p P) { p.Tombstone = 24*time.Hour - 1 }), []string{"Tombstone: ", "is shorter than 24h0m0s"}},
		"invalid for a moment": {policy(func(p P) { p.InvalidRetention = time.Second }), []string{"InvalidRetention: 1s"}},
		"invalid for longer":   {policy(func(p P) { p.Retention, p.InvalidRetention = 24*time.Hour, 25*time.Hour }), []string{"InvalidRetention: 25h"}},
		"lease too short":      {policy(func(p P) { p.Lease = time.Second - 1 }), []string{"Lease: ", "between 1s and 1h"}},
		"lease too long":       {policy(func(p P) { p.Lease = time.Hour + 1 }), []string{"Lease: ", "between 1s and 1h"}},
		"deadline too short":   {policy(func(p P) { p.Deadline = time.Second - 1 }), []string{"Deadline: ", "between 1s and 24h"}},
		"deadline too long":    {policy(func(p P) { p.Deadline = 24*time.Hour + 1 }), []string{"Deadline: ", "between 1s and 24h"}},
		"wait negative":        {policy(func(p P) { p.Wait = -1 }), []string{"Wait: -1ns"}},
		"wait too long":        {policy(func(p P) { p.Wait = 10*time.Second + 1 }), []string{"Wait: ", "between 0 and 10s"}},
		"no pause":             {policy(func(p P) { p.ResumePause = -1 }), []string{"ResumePause: -1ns is not between 1ms and 1h"}},
		"no attempts":          {policy(func(p P) { p.MaxAttempts = -1 }), []string{"MaxAttempts: -1"}},
		"endless attempts":     {policy(func(p P) { p.MaxAttempts = 1001 }), []string{"MaxAttempts: 1001"}},
		"resumed for no time":  {policy(func(p P) { p.ResumeFor = time.Second }), []string{"ResumeFor: 1s"}},
		"resumed for ever":     {policy(func(p P) { p.ResumeFor = 31 * 24 * time.Hour }), []string{"ResumeFor: 744h"}},
		"no body":              {policy(func(p P) { p.MaxBody = -1 }), []string{"MaxBody: -1"}},
		"no answer":            {policy(func(p P) { p.MaxAnswer = -1 }), []string{"MaxAnswer: -1"}},
		"odd key format":       {policy(func(p P) { p.KeyFormat = 3 }), []string{"KeyFormat: 3", "core.AnyKey", "core.UUIDKey", "core.TimedKey"}},
		"empty role":           {table(func(p P) { p.Roles = []string{"a", ""} }), []string{"Roles: an empty role", "remove it"}},
		"header that is none":  {policy(func(p P) { p.CommandHeaders = []string{"X Account"} }), []string{`CommandHeaders: "X Account" is not a header name`}},
		"header Go takes away": {policy(func(p P) { p.CommandHeaders = []string{"trailer"} }), []string{"CommandHeaders: trailer", "remove it"}},
		"length Go takes away": {policy(func(p P) { p.CommandHeaders = []string{"Content-length"} }), []string{"CommandHeaders: Content-length"}},
		"bad even if exempt":   {core.Config{Store: memstore.New(), Routes: core.Routes{"PUT /x": {Exempt: "x", Retention: 1}}}, []string{`Routes["PUT /x"]: Retention: 1ns`}},
		"bad even if all routes override it": {core.Config{Store: memstore.New(), Policy: core.Policy{Retention: time.Hour},
			Routes: core.Routes{"POST /pay": {Recovery: core.Park, Retention: 24 * time.Hour}}}, []string{"Policy: Retention: 1h0m0s"}},

		"header":                  {park(func(c C) { c.Header = "Idempotency Key" }), []string{`Header: "Idempotency Key" is not a header name`}},
		"header of letters":       {park(func(c C) { c.Header = "Schlüssel" }), []string{`Header: "Schlüssel" is not a header name`}},
		"header with DEL":         {park(func(c C) { c.Header = "Key\x7f" }), []string{`Header: "Key\x7f" is not a header name`}},
		"header of proxies":       {park(func(c C) { c.Header = "x-request-id" }), []string{"Header: X-Request-Id is written by proxies"}},
		"header of traces":        {park(func(c C) { c.Header = "TraceParent" }), []string{"Header: Traceparent is written by proxies"}},
		"header of middleware":    {park(func(c C) { c.Header = "X-Correlation-ID" }), []string{"Header: X-Correlation-Id is written by"}},
		"header of .NET":          {park(func(c C) { c.Header = "Request-Id" }), []string{"Header: Request-Id is written by proxies"}},
		"replay none":             {park(func(c C) { c.ReplayHeaders = []string{"X Y"} }), []string{`ReplayHeaders: "X Y" is not a header name`}},
		"empty operator role":     {park(func(c C) { c.OperatorRoles = []core.IssuerRole{{Issuer: "i"}} }), []string{"OperatorRoles: an empty role"}},
		"operators of any issuer": {park(func(c C) { c.OperatorRoles = []core.IssuerRole{{Role: "a"}} }), []string{`OperatorRoles: role "a": name the issuer`}},
		"supervisors of nobody":   {park(func(c C) { c.SupervisorRoles = []core.IssuerRole{{Issuer: "<nil>", Role: "a"}} }), []string{`SupervisorRoles: role "a": name the issuer`}},
		"empty supervisor role":   {park(func(c C) { c.SupervisorRoles = []core.IssuerRole{{Issuer: "i", Role: "a"}, {Issuer: "i"}} }), []string{"SupervisorRoles: an empty role"}},
		"retry after":             {park(func(c C) { c.RetryAfter = -1 }), []string{"RetryAfter: -1ns is negative"}},
		"claim timeout":           {park(func(c C) { c.ClaimTimeout = -1 }), []string{"ClaimTimeout: -1ns is negative"}},
		"sweep every":             {park(func(c C) { c.SweepEvery = -1 }), []string{"SweepEvery: -1ns is negative"}},
		"clock skew":              {park(func(c C) { c.MaxClockSkew = 13 * time.Hour }), []string{"MaxClockSkew: 13h0m0s is not between 1m0s and 12h0m0s"}},
		"small clock skew":        {park(func(c C) { c.MaxClockSkew = time.Second }), []string{"MaxClockSkew: 1s is not between"}},
		"waiters":                 {park(func(c C) { c.MaxWaiters = -1 }), []string{"MaxWaiters: -1 is negative"}},
		"sweep batch":             {park(func(c C) { c.SweepBatch = -1 }), []string{"SweepBatch: -1 is negative"}},

		"shadow that has passed": {table(func(p P) { p.ShadowUntil = now.Add(-time.Second) }), []string{
			`Routes["POST /pay"]: ShadowUntil: ` + now.Add(-time.Second).Format(time.RFC3339) + " has passed"}},
		"shadow for too long":          {policy(func(p P) { p.ShadowUntil = now.Add(core.MaxShadow + time.Hour) }), []string{"is more than 90 days ahead"}},
		"shadow, exempt":               {table(func(p P) { *p = core.Policy{Exempt: "moves no money", ShadowUntil: now.Add(time.Hour)} }), []string{"only the key of a guarded route can be watched"}},
		"shadow, safe":                 {core.Config{Store: memstore.New(), Routes: core.Routes{"GET /pay": {ShadowUntil: now.Add(time.Hour)}}}, []string{"only the key of a guarded route can be watched"}},
		"shadow for all routes":        {ownWithTable(func(p P) { p.ShadowUntil = now.Add(time.Hour) }), []string{"set Recovery, Roles, Exempt, Unguarded, Review, ShadowUntil"}},
		"shadow without a command log": {park(func(c C) { c.Store, c.Policy.ShadowUntil = newFaultStore(memstore.New()), now.Add(time.Hour) }), []string{"store.CommandLog"}},
		"shadow on memstore":           {policy(func(p P) { p.Recovery, p.ShadowUntil = core.Rollback, now.Add(time.Hour) }), []string{"Recovery: Rollback needs a store"}},
		"rekey window":                 {policy(func(p P) { p.RekeyWindow = 25 * time.Hour }), []string{"RekeyWindow: 25h0m0s is not between 1s and 24h0m0s"}},
		"rekey without a command log":  {park(func(c C) { c.Store, c.Policy.RefuseRekeyed = newFaultStore(memstore.New()), true }), []string{"Policy: RefuseRekeyed: needs a store that remembers commands"}},
		"max open negative":            {policy(func(p P) { p.MaxOpen = -1 }), []string{"MaxOpen: -1 is negative"}},
		"store without lists":          {park(func(c C) { c.Store = struct{ core.Store }{memstore.New()} }), []string{"Store: ", "lists and settles no operations (store.Operations)", "use gormstore"}},

		"profile, unknown": {park(func(c C) { c.Profile = 2 }), []string{"Profile: 2 is no profile; use core.AUTH19, the default, or core.IETF"}},
		"IETF, no address": {ietf("", ""), []string{"Profile: IETF asks for a link"}},
		"IETF, a name":     {ietf("urn:shop:", ""), []string{"Profile: IETF asks for a link"}},
		"IETF, a path":     {ietf("", "/idempotency"), []string{"Profile: IETF asks for a link"}},
		"IETF, a query":    {ietf("", "https://shop.example/?p=1"), []string{"Profile: IETF asks for a link"}},
		"IETF, a fragment": {ietf("", "https://shop.example/#p"), []string{"Profile: IETF asks for a link"}},
		"IETF, a repeat that waits": {core.Config{Store: memstore.New(), Profile: core.IETF, PolicyURL: "https://shop.example/idempotency",
			Routes: core.Routes{"POST /a": {Recovery: core.Park, Wait: time.Second}, "POST /b": {Recovery: core.Park}}},
			[]string{`Routes["POST /a"]: Wait: the draft asks for an error while the first request is running`, "leave Wait out"}},
		"IETF, all repeats wait": {core.Config{Store: memstore.New(), Profile: core.IETF, PolicyURL: "https://shop.example/idempotency",
			Policy: core.Policy{Wait: time.Second}, Routes: core.Routes{"POST /a": {Recovery: core.Park}}},
			[]string{`Routes["POST /a"]: Wait: the draft asks for an error`}},
		"unwritten, odd":    {policy(func(p P) { p.Unwritten = 4 }), []string{"Unwritten: 4 is none of core.UnwrittenEvent, core.UnwrittenAllowed, core.UnwrittenRefused"}},
		"unwritten of Park": {table(func(p P) { p.Unwritten = core.UnwrittenRefused }), []string{`Routes["POST /pay"]: Unwritten: only core.Rollback`}},
		"IETF, one policy": {core.Config{Store: memstore.New(), Profile: core.IETF, PolicyURL: "https://shop.example/idempotency",
			Policy: core.Policy{Recovery: core.Park, Wait: time.Second}}, []string{`Policy: Wait: the draft asks for an error`}},
		"age of any key":             {table(func(p P) { p.KeyAge = time.Hour }), []string{`Routes["POST /pay"]: KeyAge: only a timed key has an age`, "core.TimedKey"}},
		"age of a UUID":              {table(func(p P) { p.KeyFormat, p.KeyAge = core.UUIDKey, time.Hour }), []string{`Routes["POST /pay"]: KeyAge: only`}},
		"age of any key, no table":   {policy(func(p P) { p.KeyAge = time.Hour }), []string{`Policy: KeyAge: only a timed key has an age`}},
		"attempts of Park":           {table(func(p P) { p.MaxAttempts = 5 }), []string{`Routes["POST /pay"]: MaxAttempts, ResumePause: only core.Resume tries again; leave them out`}},
		"attempts of Park, no table": {policy(func(p P) { p.MaxAttempts = 5 }), []string{`Policy: MaxAttempts, ResumePause: only core.Resume`}},
		"IETF, no host at all":       {ietf("https:shop/", ""), []string{"is not an absolute URI"}},

		"all at once": {core.Config{Store: memstore.New(), Header: "a b", SweepBatch: -1, ReplayHeaders: []string{"Date"},
			Routes: core.Routes{"POST": {}, "POST /a": {}, "POST /b": {Recovery: core.Park, Lease: 1, Wait: -1}}},
			[]string{"Header: ", "SweepBatch: ", "ReplayHeaders: Date", `Routes["POST"]`, `Routes["POST /a"]: Recovery: `,
				`Routes["POST /b"]: Lease: `, "Wait: "}},
	} {
		t.Run(name, func(t *testing.T) {
			module, err := core.New(test.cfg)
			require.Nil(t, module)
			require.ErrorContains(t, err, "idem: core.New: ")
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func ownWithTable(change func(*core.Policy)) core.Config {
	cfg := routes("POST /pay")
	change(&cfg.Policy)
	return cfg
}

// The defaults as the contract and the comments have them.
//
// CONTRACT R-7, T-2
func TestDefaults(t *testing.T) {
	module := newModule(t, table(func(*core.Policy) {}))
	require.Equal(t, []core.DeclaredRoute{{Method: "POST", Pattern: "/pay", Policy: core.Policy{
		Recovery: core.Park, Retention: 72 * time.Hour, Tombstone: 30 * 24 * time.Hour, InvalidRetention: 6 * time.Hour,
		Lease: 30 * time.Second, Deadline: time.Minute, Wait: 0, MaxBody: 1 << 20, MaxAnswer: 1 << 20, KeyFormat: core.AnyKey,
		KeyAge: 24 * time.Hour, RekeyWindow: 10 * time.Minute, MaxAttempts: 200, ResumePause: 5 * time.Second, ResumeFor: 24 * time.Hour,
		Unwritten: core.UnwrittenEvent,
	}}}, module.Declared())
	require.Equal(t, "Idempotency-Key", wire.HeaderKey)
	require.Equal(t, 2*time.Second, core.DefaultRetryAfter)
	require.Equal(t, time.Second, store.DefaultClaimTimeout)
	require.Equal(t, 256, core.DefaultMaxWaiters)
	require.Equal(t, time.Minute, core.DefaultSweepEvery)
	require.Equal(t, time.Hour, core.DefaultMaxClockSkew)
	require.Equal(t, 500, core.DefaultSweepBatch)
}
