package contracttest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
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

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/contracttest"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/ginidem"
)

// A suite that cannot fail proves nothing. Each mutant is the bank on Gin with one fault in it or around it, and names the
// rules that the suite must find broken: these and no others, or with ... these and more that break with them.
var mutants = []struct {
	name, fails string
	fault       fault
}{
	{"nothing", "", all(slow, both)},
	{"another header", "", func(m *mutant) { m.header = "Payment-Key" }},
	{"nothing, in Rollback", "", func(m *mutant) { m.open = onSQLite }},
	{"nothing, in Resume", "", func(m *mutant) { m.open = inSteps }},
	{"nothing, timed keys", "", timed},
	{"nothing, the IETF's", "", all(slow, both, configured(ofTheIETF), saidToBeTheIETFs)},

	{"the IETF's status, not said", "M-1 S-3 ...", configured(ofTheIETF)},
	{"our status, said to be the IETF's", "K-1 M-1 S-3 ...", saidToBeTheIETFs},

	{"no guard", "K-1 M-1 M-3 M-6 ...", guarded(func(b *bank) []gin.HandlerFunc {
		return []gin.HandlerFunc{ginidem.JWTGuard(b.verifier), ginidem.RolesGuard(b.idem)}
	})},
	{"a map of answers", "K-1 K-4 M-1 M-3 M-6 O-3 S-1 S-3 ...", guarded(mapOfAnswers)},

	// Who calls.
	{"callers without a token are let in", "M-7 M-8 O-1 O-2 P-1", as(func(p *core.Principal, _ *gin.Context, err *error) {
		if *err != nil {
			*p, *err = core.Principal{Issuer: issuer, Subject: "anonymous", Roles: []string{"customer"}}, nil
		}
	})},
	{"one scope for all", "M-7 M-8 S-1", as(func(p *core.Principal, _ *gin.Context, _ *error) {
		p.Issuer, p.Tenant, p.Subject = "all", "all", "all"
	})},
	{"the issuer does not count", "S-1", as(func(p *core.Principal, _ *gin.Context, _ *error) { p.Issuer = "any" })},
	{"the tenant does not count", "S-1", as(func(p *core.Principal, _ *gin.Context, _ *error) { p.Tenant = "" })},
	{"a scope for each token", "M-7 M-8 S-2", as(func(p *core.Principal, c *gin.Context, _ *error) {
		p.Subject += c.GetHeader("Authorization")
	})},
	{"roles are for the handler", "O-1 O-3", all(policies(func(p *core.Policy) { p.Roles = nil }), guarded(rolesInside))},
	{"the key before the caller", "O-1", refusing(core.CodeKeyInvalid, func(r *http.Request) bool {
		return isMoney(r) && len(r.Header[wire.HeaderKey]) > 1
	})},
	{"bad tokens are told in plain text", "M-7 M-8 O-1 O-2", answering(func(_ []byte, a *httptest.ResponseRecorder) {
		if a.Code == http.StatusUnauthorized {
			a.Header().Set("Content-Type", "text/plain")
		}
	})},

	// Its key.
	{"a key is made where there is none", "K-1 O-1", asking(func(r *http.Request) {
		if isMoney(r) && strings.TrimSpace(strings.Join(r.Header[wire.HeaderKey], "")) == "" {
			r.Header.Set(wire.HeaderKey, "4a8fb1c6-7d0d-4f6c-9d5e-"+strings.ToLower(rand.Text()[:12]))
		}
	})},
	{"a quoted key with parameters", "K-2", ofKeys(func(key string) string {
		if bare, _, ok := strings.Cut(key, `";`); ok {
			return bare + `"`
		}
		return key
	})},
	{"quotes are part of the key", "K-2", ofKeys(func(key string) string {
		if len(key) == 38 && key[0] == '"' {
			return `"-` + key[1:]
		}
		return key
	})},
	{"long keys are cut", "K-3", ofKeys(func(key string) string {
		if len(key) > 255 {
			return key[:200]
		}
		return key
	})},
	{"a comma in a bare key", "K-3 K-4", asking(func(r *http.Request) {
		if lines := r.Header[wire.HeaderKey]; len(lines) == 1 && lines[0] != "" && lines[0][0] != '"' {
			lines[0] = strings.ReplaceAll(lines[0], ",", "")
		}
	})},
	{"keys that are no UUIDs", "K-3", all(both, policies(func(p *core.Policy) { p.KeyFormat = core.AnyKey }))},
	{"keys of any age", "T-6", all(timed, configured(func(c *core.Config) { c.Policy.KeyAge = 60 * time.Hour }))},
	{"keys without a time", "T-6", all(timed, policies(func(p *core.Policy) { p.KeyFormat = core.UUIDKey }))},
	{"old keys may be sent again", "T-6", all(timed, answering(retryAfter("key_too_old")))},
	{"two headers are joined", "K-4 O-1 P-1", asking(func(r *http.Request) {
		if lines := r.Header[wire.HeaderKey]; len(lines) > 1 {
			r.Header.Set(wire.HeaderKey, strings.Join(lines, ""))
		}
	})},
	{"keys in the URL", "K-5", asking(func(r *http.Request) {
		if query := r.URL.Query(); query.Has("idempotency_key") {
			query.Del("idempotency_key")
			r.URL.RawQuery = query.Encode()
		}
	})},
	{"keys in the log", "K-6", logging(func(b *bank, r *http.Request) {
		b.log.printf("%s %s\n", r.URL.Path, r.Header.Get(wire.HeaderKey))
	})},
	{"tokens in the log", "K-6", logging(func(b *bank, r *http.Request) { b.log.printf("%q\n", r.Header["Authorization"]) })},
	{"bodies in the log", "K-6", logging(func(b *bank, r *http.Request) {
		if body, _ := readBody(r); len(body) < smallBody && !json.Valid(body) {
			b.log.printf("not JSON: %q\n", body)
		}
	})},
	{"the default header as well", "K-7", all(func(m *mutant) { m.header = "Payment-Key" }, asking(func(r *http.Request) {
		if r.Header["Payment-Key"] == nil {
			r.Header["Payment-Key"] = r.Header[wire.HeaderKey]
		}
	}))},
	{"safe methods need keys", "K-8", refusing(core.CodeKeyMissing, func(r *http.Request) bool {
		return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/v1/operations") && noKey(r)
	})},
	{"what has no route needs keys", "K-8", refusing(core.CodeKeyMissing, func(r *http.Request) bool {
		return r.Method == http.MethodDelete && noKey(r)
	})},

	// Its command.
	{"commands are not compared", "H-1 H-2 H-3 H-6 H-8 M-1 R-1 S-1 S-2 S-3 ...", all(both, storing(func(s *faultyStore) {
		s.claim = func(ctx context.Context, c store.Claim) (store.Claimed, error) {
			got, err := s.Operations.Claim(ctx, c)
			got.Record.Hash = c.Hash
			return got, err
		}
	}))},
	{"a key for each route", "M-7 M-8 S-3", storing(func(s *faultyStore) {
		s.claim = func(ctx context.Context, c store.Claim) (store.Claimed, error) {
			c.ID = sha256.Sum256(append(c.ID[:], c.Route...))
			return s.Operations.Claim(ctx, c)
		}
	})},
	{"the query does not count", "H-1", asking(func(r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "contracttest") {
			r.URL.RawQuery = ""
		}
	})},
	{"the pattern stands for the path", "H-1", asking(func(r *http.Request) {
		r.URL.Path = strings.ReplaceAll(r.URL.Path, "/accounts/b/", "/accounts/a/")
	})},
	{"the method does not count", "H-1", asking(func(r *http.Request) {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/payments") {
			r.Method = http.MethodPost
		}
	})},
	{"all JSON is of one type", "H-1", typing(func(contentType string) string {
		return strings.Replace(contentType, "/x-contracttest+json", "/json", 1)
	})},
	{"parameters do not count", "H-8", typing(func(contentType string) string {
		contentType, _, _ = strings.Cut(contentType, "; contracttest=")
		return contentType
	})},
	{"charsets count", "H-8", typing(func(contentType string) string {
		return strings.Replace(contentType, "charset=", "x=", 1)
	})},
	{"the values of parameters do not count", "H-8", typing(func(contentType string) string {
		return strings.Replace(contentType, "contracttest=2", "contracttest=1", 1)
	})},
	{"case does not count", "H-6", rewriting(func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(`{"A":1,"a":2}`), []byte(`{"a":1,"A":2}`))
	})},
	{"JSON in floating point", "H-2 H-6", rewriting(func(body []byte) []byte {
		var value any
		if json.Unmarshal(body, &value) == nil {
			body, _ = json.Marshal(value)
		}
		return body
	})},
	{"JSON byte for byte", "H-2 H-5", typing(func(contentType string) string {
		return strings.Replace(contentType, "/json", "/x-json", 1)
	})},
	{"null is absent", "H-2", rewriting(func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(`,"x_contract":null`), nil)
	})},
	{"boundaries count", "H-3", all(both, asking(func(r *http.Request) {
		contentType := r.Header.Get("Content-Type")
		if _, boundary, ok := strings.Cut(contentType, "boundary="); ok {
			boundary, _, _ = strings.Cut(boundary, ";")
			r.Header.Set("Content-Type", contentType+"; again="+boundary)
		}
	}))},
	{"bodies of any size", "H-5 O-1 P-1", policies(func(p *core.Policy) { p.MaxBody = 64 << 20 })},
	{"a broken body is taken", "H-5", asking(func(r *http.Request) {
		body, _ := readBody(r)
		setBody(r, body)
	})},

	// Its repeats.
	{"looks before it claims", "M-6", storing(func(s *faultyStore) {
		s.claim = func(ctx context.Context, c store.Claim) (store.Claimed, error) {
			_, err := s.Find(ctx, c.ID, store.Viewer{All: true})
			time.Sleep(time.Millisecond) // as a database is away
			got, claimErr := s.Operations.Claim(ctx, c)
			got.Won = got.Won || errors.Is(err, core.ErrNotFound)
			return got, claimErr
		}
	})},
	{"replays are not marked", "M-3 M-6 ...", answering(func(_ []byte, a *httptest.ResponseRecorder) {
		a.Header().Del(wire.HeaderReplayed)
	})},
	{"headers are not recorded", "M-3 M-6 ...", answering(func(_ []byte, a *httptest.ResponseRecorder) {
		if a.Header().Get(wire.HeaderReplayed) != "" {
			a.Header().Del("Location")
		}
	})},
	{"some headers are not recorded", "M-3 M-6 ...", answering(func(_ []byte, a *httptest.ResponseRecorder) {
		if a.Header().Get(wire.HeaderReplayed) != "" {
			a.Header().Del("Link")
		}
	})},
	{"a mismatch may be repeated", "M-1 S-3 ...", answering(retryAfter("key_reused"))},
	{"nobody is told to wait", "M-2", all(slow, answering(func(body []byte, a *httptest.ResponseRecorder) {
		if bytes.Contains(body, []byte(`"slow"`)) {
			a.Header().Del("Retry-After")
		}
	}))},
	{"operations for everybody", "M-7", configured(func(cfg *core.Config) {
		cfg.OperatorRoles = []core.IssuerRole{{Issuer: issuer, Role: "customer"}}
		for route, p := range cfg.Routes { // a route of operators alone would take no timed keys
			p.Roles = append(slices.Clone(p.Roles), "clerk")
			cfg.Routes[route] = p
		}
	})},

	// Its outcome.
	{"refusals are rendered anew", "R-1", answering(func(_ []byte, a *httptest.ResponseRecorder) {
		if a.Code == http.StatusPaymentRequired {
			a.Body.Reset()
			fmt.Fprintf(a.Body, `{"error":"declined","at":"%v"}`, time.Now())
		}
	})},
	{"refusals are not recorded", "H-2 R-1", storing(func(s *faultyStore) { // but free the key
		s.end = func(ctx context.Context, t store.Ticket, e store.Ending) error {
			if e.Answer.Answer.Status >= 400 {
				e.State = store.Free
			}
			return s.Operations.End(ctx, t, e)
		}
	})},
	{"rows outside the transaction", "X-0", func(m *mutant) {
		m.open = func(t *testing.T) *bank {
			b, ledger := onSQLite(t), inMemory(t)
			b.book, b.booked = ledger.book, ledger.booked
			return b
		}
	}},
	{"what failed in Park runs again", "M-4 M-7", storing(func(s *faultyStore) {
		s.end = func(ctx context.Context, t store.Ticket, e store.Ending) error {
			if e.State == store.Unknown {
				e.State = store.Free
			}
			return s.Operations.End(ctx, t, e)
		}
	})},
	{"effects outside of steps", "X-3", func(m *mutant) {
		m.open = func(t *testing.T) *bank {
			b := inMemory(t)
			b.recovery = core.Resume
			return b
		}
	}},
	{"the unknown may be repeated", "M-4", answering(retryAfter("outcome_unknown"))},
	{"problems show the body", "P-1", answering(func(body []byte, a *httptest.ResponseRecorder) {
		if a.Code == http.StatusRequestEntityTooLarge {
			var problem map[string]any
			_ = json.Unmarshal(a.Body.Bytes(), &problem)
			problem["detail"] = fmt.Sprintf("too large: %.500s", body)
			a.Body.Reset()
			_ = json.NewEncoder(a.Body).Encode(problem)
		}
	})},
}

// TestMutants shows what the suite finds, and that it finds nothing in a sound app.
func TestMutants(t *testing.T) {
	atLast := t.Cleanup // closing a server takes the half second in which it lets a client read a refusal
	for _, row := range mutants {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := mutant{open: inMemory, guards: guards, routes: 1}
			row.fault(&m)
			app := m.app(t)
			server := httptest.NewServer(app.Handler)
			atLast(server.Close)
			app.URL, app.Handler = server.URL, nil
			words, more := strings.CutSuffix(row.fails, " ...")
			rules := strings.Fields(words)
			// A sound app passes all rounds, and a race has all of them to show.
			try := contracttest.Try{Routes: m.routes, OneRound: row.fails != "" && !slices.Contains(rules, "M-6")}
			if more {
				try.Rules = rules
			}
			failed, skipped := contracttest.Violations(t, app, try)

			found := map[string]bool{}
			report := ""
			for check, message := range failed {
				rule, _, _ := strings.Cut(check, " ")
				found[rule] = true
				report += message + "\n"
			}
			require.ElementsMatch(t, rules, slices.Collect(maps.Keys(found)), report)
			if m.slow {
				require.Empty(t, skipped, "a check that was not tried on any route")
			}
		})
	}
}
