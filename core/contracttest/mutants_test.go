package contracttest_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/contracttest"
	"github.com/auth19/idem/ginidem"
)

// A suite that cannot fail proves nothing. A mutant is the bank on Gin with one fault in it or around it, and names the
// rules that the suite must find broken: these and no others, or these and more that break with them.
type mutant struct {
	fails []string
	more  bool

	open   func(*testing.T) *bank // default inMemory
	store  func(core.Store) core.Store
	config func(*core.Config)
	guards func(*bank) []gin.HandlerFunc // default JWTGuard, Idempotent
	around func(*bank, http.Handler) http.Handler
	header string       // default Idempotency-Key
	claims core.Profile // what the app says that it follows
	slow   bool         // the slow commands as well
	both   bool         // the multipart route as well, which takes UUIDs only
	timed  bool         // the route with timed keys only
}

var mutants = map[string]mutant{
	"nothing":              {slow: true, both: true},
	"another header":       {header: "Payment-Key"},
	"nothing, in Rollback": {open: onSQLite},
	"nothing, in Resume":   {open: inSteps},
	"nothing, timed keys":  {timed: true},
	"nothing, the IETF's":  {slow: true, both: true, config: ofTheIETF, claims: core.IETF},

	"the IETF's status, not said":       {fails: []string{"M-1", "S-3"}, more: true, config: ofTheIETF},
	"our status, said to be the IETF's": {fails: []string{"K-1", "M-1", "S-3"}, more: true, claims: core.IETF},

	"no guard": {fails: []string{"K-1", "M-1", "M-3", "M-6"}, more: true, guards: unguarded},
	"a map of answers": {
		fails: []string{"K-1", "K-4", "M-1", "M-3", "M-6", "O-3", "S-1", "S-3"}, more: true, guards: mapOfAnswers,
	},

	// Who calls.
	"callers without a token are let in": {fails: []string{"M-7", "M-8", "O-1", "O-2", "P-1"}, guards: as(anonymous)},
	"one scope for all":                  {fails: []string{"M-7", "M-8", "S-1"}, guards: as(everybody)},
	"the issuer does not count":          {fails: []string{"S-1"}, guards: as(ofAnyIssuer)},
	"the tenant does not count":          {fails: []string{"S-1"}, guards: as(ofAnyTenant)},
	"a scope for each token":             {fails: []string{"M-7", "M-8", "S-2"}, guards: scopePerToken},
	"roles are for the handler":          {fails: []string{"O-1", "O-3"}, config: noRoles, guards: rolesInside},
	"the key before the caller":          {fails: []string{"O-1"}, around: refusing(isMoney, twoKeys)},
	"bad tokens are told in plain text":  {fails: []string{"M-7", "M-8", "O-1", "O-2"}, around: answering(inPlainText)},

	// Its key.
	"a key is made where there is none": {fails: []string{"K-1", "O-1"}, around: asking(makeKey)},
	"a quoted key with parameters":      {fails: []string{"K-2"}, around: asking(dropParameters)},
	"quotes are part of the key":        {fails: []string{"K-2"}, around: asking(keepQuotes)},
	"long keys are cut":                 {fails: []string{"K-3"}, around: asking(cutKey)},
	"a comma in a bare key":             {fails: []string{"K-3", "K-4"}, around: asking(dropCommas)},
	"keys that are no UUIDs":            {fails: []string{"K-3"}, both: true, config: policies(anyKey)},
	"keys of any age":                   {fails: []string{"T-6"}, timed: true, config: policies(oldKey)},
	"keys without a time":               {fails: []string{"T-6"}, timed: true, config: policies(uuidKey)},
	"old keys may be sent again":        {fails: []string{"T-6"}, timed: true, around: answering(retryAfter("key_too_old"))},
	"two headers are joined":            {fails: []string{"K-4", "O-1", "P-1"}, around: asking(joinKeys)},
	"keys in the URL":                   {fails: []string{"K-5"}, around: asking(dropFromURL)},
	"keys in the log":                   {fails: []string{"K-6"}, around: logging(logKey)},
	"tokens in the log":                 {fails: []string{"K-6"}, around: logging(logHeaders)},
	"bodies in the log":                 {fails: []string{"K-6"}, around: logging(logInvalidBodies)},
	"the default header as well":        {fails: []string{"K-7"}, header: "Payment-Key", around: asking(defaultHeader)},
	"safe methods need keys":            {fails: []string{"K-8"}, around: refusing(isRead, noKey)},
	"what has no route needs keys":      {fails: []string{"K-8"}, around: refusing(isDelete, noKey)},

	// Its command.
	"commands are not compared": {
		fails: []string{"H-1", "H-2", "H-3", "M-1", "R-1", "S-1", "S-2", "S-3"}, more: true, both: true, store: newOneCommand,
	},
	"a key for each route":            {fails: []string{"M-7", "M-8", "S-3"}, store: newKeyPerRoute},
	"the query does not count":        {fails: []string{"H-1"}, around: asking(dropQuery)},
	"the pattern stands for the path": {fails: []string{"H-1"}, around: asking(oneAccount)},
	"JSON in floating point":          {fails: []string{"H-2"}, around: rewriting(inFloatingPoint)},
	"JSON byte for byte":              {fails: []string{"H-2", "H-5"}, around: asking(notAsJSON)},
	"null is absent":                  {fails: []string{"H-2"}, around: rewriting(dropNull)},
	"boundaries count":                {fails: []string{"H-3"}, both: true, around: asking(boundaryTwice)},
	"bodies of any size":              {fails: []string{"H-5", "O-1", "P-1"}, config: policies(anySize)},
	"a broken body is taken":          {fails: []string{"H-5"}, around: asking(takeWhatCame)},

	// Its repeats.
	"looks before it claims":     {fails: []string{"M-6"}, store: newCheckThenAct},
	"replays are not marked":     {fails: []string{"M-3", "M-6"}, more: true, around: answering(unmark)},
	"headers are not recorded":   {fails: []string{"M-3", "M-6"}, more: true, around: answering(forgetLocation)},
	"a mismatch may be repeated": {fails: []string{"M-1", "S-3"}, more: true, around: answering(retryAfter("key_reused"))},
	"nobody is told to wait":     {fails: []string{"M-2"}, slow: true, around: answering(noRetryAfterForSlow)},
	"operations for everybody":   {fails: []string{"M-7"}, config: customersOperate},

	// Its outcome.
	"refusals are rendered anew":     {fails: []string{"R-1"}, around: answering(renderAnew)},
	"refusals are not recorded":      {fails: []string{"H-2", "R-1"}, store: newSuccessesOnly},
	"rows outside the transaction":   {fails: []string{"X-0"}, open: besideSQLite},
	"what failed in Park runs again": {fails: []string{"M-4", "M-7"}, store: newParksNothing},
	"effects outside of steps":       {fails: []string{"X-3"}, open: besideSteps},
	"the unknown may be repeated":    {fails: []string{"M-4"}, around: answering(retryAfter("outcome_unknown"))},
	"problems show the body":         {fails: []string{"P-1"}, around: answering(showBody)},
}

// TestMutants shows what the suite finds, and that it finds nothing in a sound app.
func TestMutants(t *testing.T) {
	atLast := t.Cleanup // closing a server takes the half second in which it lets a client read a refusal
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := m.app(t)
			server := httptest.NewServer(app.Handler)
			atLast(server.Close)
			app.URL, app.Handler = server.URL, nil
			// A sound app passes all rounds, and a race has all of them to show.
			oneRound := len(m.fails) > 0 && !slices.Contains(m.fails, "M-6")
			failed, skipped := contracttest.Violations(t, app, m.routes(), oneRound)

			rules := make(map[string]bool)
			report := ""
			for check, message := range failed {
				rule, _, _ := strings.Cut(check, " ")
				rules[rule] = true
				report += message + "\n"
			}
			found := slices.Sorted(maps.Keys(rules))
			if m.more {
				require.Subset(t, found, m.fails)
				return
			}
			require.Equal(t, m.fails, found, report)
			if m.slow {
				require.Empty(t, skipped, "a check that was not tried on any route")
			}
		})
	}
}

// routes is how many of the app's routes are checked.
func (m mutant) routes() int {
	if m.both {
		return 2
	}
	return 1
}

func (m mutant) app(t *testing.T) contracttest.App {
	t.Helper()
	open := m.open
	if open == nil {
		open = inMemory
	}
	b := open(t)
	if m.store != nil {
		b.store = m.store(b.store)
	}
	b.open(t, func(cfg *core.Config) {
		cfg.Header = m.header
		if m.store != nil {
			delete(cfg.Routes, "POST /v1/transfers") // such a store judges no timed keys
		}
		if m.config != nil {
			m.config(cfg)
		}
	})
	handler := onGin(b)
	if m.guards != nil {
		handler = onGinBehind(b, m.guards(b)...)
	}
	if m.around != nil {
		handler = m.around(b, handler)
	}
	app := b.app(t, handler)
	app.Header, app.Profile = m.header, m.claims
	if m.timed {
		app.Routes = app.Routes[2:]
	}
	if m.slow {
		app.Routes[0].Slow = method("slow")
	}
	return app
}

// Faults in the guards.

func unguarded(b *bank) []gin.HandlerFunc {
	return []gin.HandlerFunc{ginidem.JWTGuard(b.verifier), ginidem.RolesGuard(b.idem)}
}

// as treats the caller as somebody else.
func as(change func(core.Principal, error) (core.Principal, error)) func(*bank) []gin.HandlerFunc {
	return func(b *bank) []gin.HandlerFunc {
		return []gin.HandlerFunc{ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
			return change(b.verifier.VerifyRequest(c.Request))
		}), ginidem.Idempotent(b.idem)}
	}
}

func anonymous(p core.Principal, err error) (core.Principal, error) {
	if err != nil {
		p = core.Principal{Issuer: issuer, Subject: "anonymous", Roles: []string{"customer"}}
	}
	return p, nil
}

func everybody(p core.Principal, err error) (core.Principal, error) {
	p.Issuer, p.Tenant, p.Subject = "all", "all", "all"
	return p, err
}

func ofAnyIssuer(p core.Principal, err error) (core.Principal, error) {
	p.Issuer = "any"
	return p, err
}

func ofAnyTenant(p core.Principal, err error) (core.Principal, error) {
	p.Tenant = ""
	return p, err
}

func scopePerToken(b *bank) []gin.HandlerFunc {
	return []gin.HandlerFunc{ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
		p, err := b.verifier.VerifyRequest(c.Request)
		p.Subject += c.GetHeader("Authorization")
		return p, err
	}), ginidem.Idempotent(b.idem)}
}

func policies(change func(*core.Policy)) func(*core.Config) {
	return func(cfg *core.Config) {
		for name, policy := range cfg.Routes {
			change(&policy)
			cfg.Routes[name] = policy
		}
	}
}

func anyKey(p *core.Policy) { p.KeyFormat = core.AnyKey }

func uuidKey(p *core.Policy) { p.KeyFormat = core.UUIDKey }

func oldKey(p *core.Policy) { p.KeyAge = 60 * time.Hour }

func anySize(p *core.Policy) { p.MaxBody = 64 << 20 }

func ofTheIETF(cfg *core.Config) {
	cfg.Profile, cfg.PolicyURL = core.IETF, "https://bank.example/idempotency"
}

func customersOperate(cfg *core.Config) {
	cfg.OperatorRoles = []core.IssuerRole{{Issuer: issuer, Role: "customer"}}
}

func noRoles(cfg *core.Config) { policies(func(p *core.Policy) { p.Roles = nil })(cfg) }

func rolesInside(b *bank) []gin.HandlerFunc {
	return []gin.HandlerFunc{ginidem.JWTGuard(b.verifier), ginidem.Idempotent(b.idem), func(c *gin.Context) {
		if p, _ := authctx.FromContext(c.Request.Context()); !p.HasAnyRole("customer") {
			core.NotApplied(c.Request.Context())
			send(c.Writer, core.NewProblem(core.CodeForbidden, "only customers may pay"))
			c.Abort()
		}
	}}
}

// Faults of requests.

func makeKey(r *http.Request) {
	if isMoney(r) && strings.TrimSpace(strings.Join(r.Header[core.DefaultHeader], "")) == "" {
		r.Header.Set(core.DefaultHeader, "4a8fb1c6-7d0d-4f6c-9d5e-"+strings.ToLower(rand.Text()[:12]))
	}
}

func dropParameters(r *http.Request) {
	if key, _, ok := strings.Cut(r.Header.Get(core.DefaultHeader), `";`); ok {
		r.Header.Set(core.DefaultHeader, key+`"`)
	}
}

func keepQuotes(r *http.Request) {
	if key := r.Header.Get(core.DefaultHeader); len(key) == 38 && key[0] == '"' {
		r.Header.Set(core.DefaultHeader, `"-`+key[1:])
	}
}

func cutKey(r *http.Request) {
	if key := r.Header.Get(core.DefaultHeader); len(key) > 255 {
		r.Header.Set(core.DefaultHeader, key[:200])
	}
}

func dropCommas(r *http.Request) {
	if lines := r.Header[core.DefaultHeader]; len(lines) == 1 && lines[0] != "" && lines[0][0] != '"' {
		lines[0] = strings.ReplaceAll(lines[0], ",", "")
	}
}

func joinKeys(r *http.Request) {
	if lines := r.Header[core.DefaultHeader]; len(lines) > 1 {
		r.Header.Set(core.DefaultHeader, strings.Join(lines, ""))
	}
}

func dropFromURL(r *http.Request) {
	if query := r.URL.Query(); query.Has("idempotency_key") {
		query.Del("idempotency_key")
		r.URL.RawQuery = query.Encode()
	}
}

func defaultHeader(r *http.Request) {
	if r.Header["Payment-Key"] == nil {
		r.Header["Payment-Key"] = r.Header[core.DefaultHeader]
	}
}

func dropQuery(r *http.Request) {
	if strings.Contains(r.URL.RawQuery, "contracttest") {
		r.URL.RawQuery = ""
	}
}

func oneAccount(r *http.Request) {
	r.URL.Path = strings.ReplaceAll(r.URL.Path, "/accounts/b/", "/accounts/a/")
}

func notAsJSON(r *http.Request) {
	if r.Header.Get("Content-Type") == "application/json" {
		r.Header.Set("Content-Type", "application/x-json")
	}
}

func boundaryTwice(r *http.Request) {
	contentType := r.Header.Get("Content-Type")
	if _, boundary, ok := strings.Cut(contentType, "boundary="); ok {
		r.Header.Set("Content-Type", contentType+"; again="+boundary)
	}
}

func takeWhatCame(r *http.Request) {
	body, _ := readBody(r)
	setBody(r, body)
}

func inFloatingPoint(body []byte) []byte {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return body
	}
	body, _ = json.Marshal(value)
	return body
}

func dropNull(body []byte) []byte { return bytes.ReplaceAll(body, []byte(`,"x_contract":null`), nil) }

func logKey(b *bank, r *http.Request) {
	b.log.printf("%s %s\n", r.URL.Path, r.Header.Get(core.DefaultHeader))
}

func logHeaders(b *bank, r *http.Request) { b.log.printf("%q\n", r.Header["Authorization"]) }

func logInvalidBodies(b *bank, r *http.Request) {
	if body, _ := readBody(r); len(body) < smallBody && !json.Valid(body) {
		b.log.printf("not JSON: %q\n", body)
	}
}

// Faults of answers.

func inPlainText(_ []byte, a *httptest.ResponseRecorder) {
	if a.Code == http.StatusUnauthorized {
		a.Header().Set("Content-Type", "text/plain")
	}
}

func unmark(_ []byte, a *httptest.ResponseRecorder) { a.Header().Del(core.HeaderReplayed) }

func forgetLocation(_ []byte, a *httptest.ResponseRecorder) {
	if a.Header().Get(core.HeaderReplayed) != "" {
		a.Header().Del("Location")
	}
}

func retryAfter(code string) func([]byte, *httptest.ResponseRecorder) {
	return func(_ []byte, a *httptest.ResponseRecorder) {
		if bytes.Contains(a.Body.Bytes(), []byte(`"`+code+`"`)) {
			a.Header().Set("Retry-After", "2")
		}
	}
}

func noRetryAfterForSlow(body []byte, a *httptest.ResponseRecorder) {
	if bytes.Contains(body, []byte(`"slow"`)) {
		a.Header().Del("Retry-After")
	}
}

func renderAnew(_ []byte, a *httptest.ResponseRecorder) {
	if a.Code == http.StatusPaymentRequired {
		a.Body.Reset()
		fmt.Fprintf(a.Body, `{"error":"declined","at":"%v"}`, time.Now())
	}
}

func showBody(body []byte, a *httptest.ResponseRecorder) {
	if a.Code != http.StatusRequestEntityTooLarge {
		return
	}
	var problem map[string]any
	_ = json.Unmarshal(a.Body.Bytes(), &problem)
	problem["detail"] = fmt.Sprintf("too large: %.500s", body)
	a.Body.Reset()
	_ = json.NewEncoder(a.Body).Encode(problem)
}
