package inspect_test

import (
	"context"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/store"
)

func TestConfig(t *testing.T) {
	d := newDesk(t)
	anonymous := func(*http.Request) (core.Principal, error) { return core.Principal{}, nil }
	_, err := inspect.New(inspect.Config{})
	require.ErrorContains(t, err, "Module: is required")
	require.ErrorContains(t, err, "Caller: is required")
	for text, cfg := range map[string]inspect.Config{
		"Prefix: \"idem\"":       {Prefix: "idem"},
		"Prefix: \"/idem\"":      {Prefix: "/idem"},
		"Prefix: \"//\"":         {Prefix: "//"},
		"SignIn: ":               {SignIn: "javascript:alert(1)"},
		"is no route such as":    {Settle: "/v1/operations/:id/settle"},
		"one parameter":          {Settle: "POST /v1/settle"},
		"is not in the module's": {Settle: "POST /v2/operations/:id/settle"},
		"Routes with a recovery": {Settle: "POST /v1/profile/:one"},
		"Observer is not set":    {Module: unobserved(t)},
		"no parameter":           {Mark: settleRoute},
		"Settle: \"POST /v1/operations/:id/settle\" takes timed keys": {Settle: settleRoute, Module: timed(t)},
		"Refuse: \"POST /v1/keys/refusals\" takes timed keys":         {Refuse: refuseRoute, Module: timed(t)},
	} {
		if cfg.Module == nil {
			cfg.Module = d.module
		}
		cfg.Caller = anonymous
		_, err := inspect.New(cfg)
		require.ErrorContains(t, err, text)
	}
}

// timed is a module whose routes, those of operators too, inherit that they take timed keys only.
func timed(t *testing.T) *core.Module {
	t.Helper()
	module, err := core.New(core.Config{Store: newDesk(t).store, Observer: core.LogObserver(slog.Default()),
		Policy: core.Policy{Recovery: core.Park, KeyFormat: core.TimedKey, KeyAge: time.Hour}})
	require.NoError(t, err)
	return module
}

// unobserved is a module that tells nobody.
func unobserved(t *testing.T) *core.Module {
	t.Helper()
	module, err := core.New(core.Config{Store: newDesk(t).store, Policy: core.Policy{Recovery: core.Park}})
	require.NoError(t, err)
	return module
}

// The pages need only the standard library.
func TestRequirements(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		require.True(t, line == "" || strings.HasPrefix(line, "github.com/auth19/idem/core") ||
			strings.HasPrefix(line, "github.com/go-json-experiment/json"), line)
	}
}

// Every page says it, the failures and the files too.
func TestHeaders(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	for _, path := range []string{"", "operations", "operations/" + id.String(), "operations/" + id.String() + "/settle", "find",
		"style.css", "icon.svg", "nothing", "operations/7"} {
		p := d.get("/idem/" + path)
		h := p.Header()
		require.Regexp(t, "^default-src 'self'; frame-ancestors 'none'", h.Get("Content-Security-Policy"), path)
		require.Equal(t, "no-store", h.Get("Cache-Control"), path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "same-origin", h.Get("Referrer-Policy"), path)
		require.NotRegexp(t, `<script| style=| on\w+=|https?://[^iw]`, p.html, "no script, no style in a line, no other host: %s", path)
	}
	require.Equal(t, http.StatusNotFound, d.get("/idem/nothing").Code)
	require.Equal(t, http.StatusNotFound, d.get("/idem/operations/7").Code)
}

// Who is not signed in, or has no role of an operator, sees nothing and changes nothing.
//
// CONTRACT S-5, O-2
func TestRoles(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	form := d.form(id, "not_applied", "refused by the provider")
	for caller, want := range map[*core.Principal]int{{}: http.StatusUnauthorized, &customer: http.StatusForbidden} {
		d.caller = *caller
		for _, path := range []string{"", "operations", "operations/" + id.String(), "operations/" + id.String() + "/settle", "find"} {
			p := d.get("/idem/" + path)
			require.Equal(t, want, p.Code, path)
			require.NotContains(t, strings.ReplaceAll(p.html, url.QueryEscape("/idem/"+path), ""), id.String(), "but for its own address")
			require.NotContains(t, p.text, "payouts")
		}
		require.Equal(t, want, d.settle(id, form).Code)
		require.Equal(t, want, d.ask(http.MethodPost, "/idem/operations/"+id.String()+"/answer", nil).Code)
		require.Equal(t, want, d.ask(http.MethodPost, "/idem/find", url.Values{"id": {id.String()}}).Code)
	}
	d.caller = core.Principal{}
	require.Contains(t, d.get("/idem/").html, `href="/login"`)
	require.Empty(t, d.store.Settlements(id))
}

// Who is signed in as somebody else reads who that is, and which role is missing, and has a way out.
func TestRefusalSaysWhatIsMissing(t *testing.T) {
	d := newDesk(t, func(c *inspect.Config) { c.SignOut = "/logout" })
	require.Contains(t, d.get("/idem/").html, `href="/logout"`)
	d.caller = customer
	p := d.get("/idem/")
	require.Equal(t, http.StatusForbidden, p.Code)
	for _, want := range []string{`subject="alice"`, `the login needs the role "operator" from https://issuer.example, or "supervisor" from`,
		"Sign in as another"} {
		require.Contains(t, p.text, want)
	}
	require.Contains(t, p.html, `href="/logout"`)
}

// An operator has the operations of its own issuer and tenant, a supervisor those of all. Another's does not exist.
//
// CONTRACT S-5
func TestRealms(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	form := d.form(id, "not_applied", "refused by the provider")
	find := url.Values{"key": {"payout-7"}, "issuer": {customer.Issuer}, "tenant": {customer.Tenant}, "subject": {customer.Subject}}
	for _, caller := range []core.Principal{olga, chief} {
		d.caller = caller
		require.Contains(t, d.get("/idem/").text, "/v1/payouts")
		require.Contains(t, d.get("/idem/operations").html, id.String())
		require.Equal(t, http.StatusOK, d.get("/idem/operations/"+id.String()).Code)
		require.Equal(t, http.StatusSeeOther, d.ask(http.MethodPost, "/idem/find", find).Code)
	}
	d.caller = other
	require.Contains(t, d.get("/idem/").text, "Nothing. Every operation")
	require.NotContains(t, d.get("/idem/operations").html, id.String())
	require.Equal(t, http.StatusNotFound, d.get("/idem/operations/"+id.String()).Code)
	require.Equal(t, http.StatusNotFound, d.get("/idem/operations/"+id.String()+"/settle").Code)
	require.Equal(t, http.StatusNotFound, d.ask(http.MethodPost, "/idem/operations/"+id.String()+"/answer", nil).Code)
	require.Equal(t, http.StatusNotFound, d.ask(http.MethodPost, "/idem/find", find).Code)
	require.Equal(t, http.StatusNotFound, d.settle(id, form).Code)
	require.Empty(t, d.store.Settlements(id))
	require.Empty(t, d.kinds(core.EventAnswerRead))
}

// By its id, or by key and principal. The key goes into no address, and comes back in no page.
//
// CONTRACT K-6, K-2
func TestFind(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	byKey := url.Values{"key": {"payout-7"}, "issuer": {customer.Issuer}, "tenant": {customer.Tenant}, "subject": {customer.Subject}}
	for _, form := range []url.Values{{"id": {" " + id.String() + " "}}, byKey} {
		p := d.ask(http.MethodPost, "/idem/find", form)
		require.Equal(t, http.StatusSeeOther, p.Code)
		require.Equal(t, "/idem/operations/"+id.String(), p.Header().Get("Location"))
	}
	byKey.Set("key", `"payout-7"`)
	require.Equal(t, http.StatusSeeOther, d.ask(http.MethodPost, "/idem/find", byKey).Code)

	for name, form := range map[string]url.Values{
		"other key":     {"key": {"secret-key-8"}, "issuer": {customer.Issuer}, "tenant": {customer.Tenant}, "subject": {customer.Subject}},
		"other subject": {"key": {"secret-key-8"}, "issuer": {customer.Issuer}, "tenant": {customer.Tenant}, "subject": {"bob"}},
		"invalid key":   {"key": {"secret key 8"}, "issuer": {customer.Issuer}, "subject": {"bob"}},
		"no subject":    {"key": {"secret-key-8"}, "issuer": {customer.Issuer}},
		"other id":      {"id": {strings.Repeat("ab", 32)}},
		"no id":         {"id": {"<script>"}},
	} {
		p := d.ask(http.MethodPost, "/idem/find", form)
		require.GreaterOrEqual(t, p.Code, http.StatusBadRequest, name)
		require.Less(t, p.Code, http.StatusInternalServerError, name)
		require.NotContains(t, p.html, "secret", name)
		require.NotContains(t, p.html, "<script>", name)
		require.Contains(t, p.html, `class="problem"`, name)
	}
}

// A caller without the client that the service requires has no operations. The page says so, instead of looking for an id that
// cannot exist. The same for another Scoping than the store's.
//
// CONTRACT S-4
func TestFindByScoping(t *testing.T) {
	d := newScopedDesk(t, core.Scoping{RequireClient: true})
	d.caller.Client = "desk"
	form := url.Values{"key": {"payout-7"}, "issuer": {customer.Issuer}, "tenant": {customer.Tenant}, "subject": {customer.Subject}}
	p := d.ask(http.MethodPost, "/idem/find", form)
	require.Equal(t, http.StatusBadRequest, p.Code)
	require.Contains(t, p.text, "the principal has no client")
	require.NotContains(t, p.text, "key is not valid")

	owner := customer
	owner.Client = "app"
	d.command("/v1/payouts", "payout-7", `{}`, owner, ok)
	form.Set("client", "app")
	require.Equal(t, http.StatusSeeOther, d.ask(http.MethodPost, "/idem/find", form).Code)

	other, err := core.New(core.Config{Store: d.store, OperatorRoles: []core.IssuerRole{{Issuer: olga.Issuer, Role: "operator"}}, Policy: core.Policy{Recovery: core.Park},
		Observer: inspect.NewNumbers()})
	require.NoError(t, err)
	d.pages, err = inspect.New(inspect.Config{Module: other, Caller: func(*http.Request) (core.Principal, error) { return olga, nil }})
	require.NoError(t, err)
	p = d.ask(http.MethodPost, "/idem/find", form)
	require.Equal(t, http.StatusInternalServerError, p.Code)
	require.Contains(t, p.text, "Config.Scoping")
}

// After retention the results of the steps are gone like the answer, swept or not.
//
// CONTRACT T-4
func TestExpiredStepsAreGone(t *testing.T) {
	d := newDesk(t)
	d.command("/v1/refunds", "refund-1", `{}`, customer, func(w http.ResponseWriter, r *http.Request) {
		_, err := core.Call(r.Context(), "call the bank", func(context.Context, core.DerivedKey) (string, error) {
			return "secret", nil
		}, core.Dedup(time.Hour))
		if err == nil {
			w.WriteHeader(http.StatusCreated)
		}
	})
	path := "/idem/operations/" + core.Scoping{}.RecordID(customer, "refund-1").String()
	require.Contains(t, d.ask(http.MethodPost, path+"/answer", nil).text, "secret")
	d.advance(store.DefaultRetention)
	require.NotContains(t, d.get(path).text, "Show what was answered")
	p := d.ask(http.MethodPost, path+"/answer", nil)
	require.Contains(t, p.text, "no longer kept")
	require.NotContains(t, p.text, "secret")
}

// The answer is masked until somebody asks for it with a form, and that is told, with a name.
func TestAnswerIsMasked(t *testing.T) {
	d := newDesk(t)
	reply := d.command("/v1/payouts", "payout-8", `{}`, customer, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/v1/payouts/secret-9")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"iban":"secret","note":"</pre><script>alert(1)</script>"}`))
	})
	require.Equal(t, http.StatusCreated, reply.Status)
	path := "/idem/operations/" + core.Scoping{}.RecordID(customer, "payout-8").String()
	p := d.get(path)
	require.Contains(t, p.text, "201 Created")
	require.Contains(t, p.text, "application/json, 58 bytes")
	require.NotContains(t, p.html, "secret")
	require.Empty(t, d.kinds(core.EventAnswerRead))
	require.Equal(t, http.StatusNotFound, d.get(path+"/answer").Code, "a link must not read it")

	p = d.ask(http.MethodPost, path+"/answer", nil)
	require.Equal(t, http.StatusOK, p.Code)
	require.Contains(t, p.text, `{"iban":"secret","note":"</pre><script>alert(1)</script>"}`)
	require.Contains(t, p.text, "/v1/payouts/secret-9")
	require.NotContains(t, p.html, "<script>")
	read := d.kinds(core.EventAnswerRead)
	require.Len(t, read, 1)
	require.Equal(t, `issuer="https://issuer.example" tenant="shop-1" subject="olga"`, read[0].Who)

	d.advance(4 * 24 * time.Hour)
	p = d.ask(http.MethodPost, path+"/answer", nil)
	require.Contains(t, p.text, "no longer kept", "swept or not")
	require.NotContains(t, p.html, "secret")
}

// A long answer is cut at a character, wherever its characters begin.
func TestLongAnswerIsCut(t *testing.T) {
	d := newDesk(t)
	for n, begin := range []string{"", "1", "12"} {
		key := fmt.Sprint("payout-", n)
		d.command("/v1/payouts", key, `{}`, customer, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(begin + strings.Repeat("漢", 100_000)))
		})
		p := d.ask(http.MethodPost, "/idem/operations/"+core.Scoping{}.RecordID(customer, key).String()+"/answer", nil)
		require.Equal(t, http.StatusOK, p.Code)
		require.Contains(t, p.text, "There is more of it")
		require.Equal(t, (64<<10-len(begin))/3, strings.Count(p.html, "漢"))
	}
}

// The filter, and pages that neither leave one out nor repeat one.
func TestOperations(t *testing.T) {
	d := newDesk(t)
	var ids []string
	for i := range 120 {
		d.command("/v1/payouts", fmt.Sprint("payout-", i), `{}`, customer, failing)
		ids = append(ids, core.Scoping{}.RecordID(customer, fmt.Sprint("payout-", i)).String())
		d.advance(time.Second)
	}
	refund := core.Scoping{}.RecordID(customer, "refund-1").String()
	d.command("/v1/refunds", "refund-1", `{}`, customer, func(w http.ResponseWriter, r *http.Request) {
		_ = core.CallDo(r.Context(), "refund", func(context.Context, core.DerivedKey) error { return errAway }, core.Dedup(time.Hour))
		failing(w, r)
	})
	d.advance(time.Hour)
	link := regexp.MustCompile(`class="id" href="/idem/operations/([0-9a-f]{64})"`)
	next := regexp.MustCompile(`rel="next" href="([^"]+)"`)
	walk := func(path string) (found []string, pages int) {
		for path != "" {
			p := d.get(path)
			require.Equal(t, http.StatusOK, p.Code)
			for _, m := range link.FindAllStringSubmatch(p.html, -1) {
				found = append(found, m[1])
			}
			path = ""
			if m := next.FindStringSubmatch(p.html); m != nil {
				path = html.UnescapeString(m[1])
			}
			pages++
			require.Less(t, pages, 10, "the pages repeat themselves")
		}
		return found, pages
	}
	all, pages := walk("/idem/operations")
	require.Equal(t, append(ids, refund), all)
	require.Equal(t, 3, pages)
	unknown, _ := walk("/idem/operations?state=unknown")
	require.Equal(t, ids, unknown)
	half, _ := walk("/idem/operations?state=half_done&route=POST+%2Fv1%2Frefunds")
	require.Equal(t, []string{refund}, half)
	none, _ := walk("/idem/operations?state=half_done&route=POST+%2Fv1%2Fpayouts")
	require.Empty(t, none)
	timed, _ := walk("/idem/operations?from=2026-11-22T12:01&until=2026-11-22T12:01:30")
	require.Equal(t, ids[60:90], timed)

	for _, query := range []string{"state=x", "route=payouts", "from=yesterday", "until=0001-01-01", "after=7", "after=7-8",
		"route=POST+/x%00", "route=POST+/x%ff"} {
		p := d.get("/idem/operations?" + query)
		require.Equal(t, http.StatusBadRequest, p.Code, query)
		require.Contains(t, p.html, `class="problem"`, query)
	}
	require.Contains(t, d.get("/idem/").text, "120")
}

// A store without the time to count all counts the oldest 1,000, of each state by itself, and the page says so.
func TestOverviewOfABusyStore(t *testing.T) {
	const hint = "only the oldest 1\u202f000 of each state are counted"
	d := newDesk(t)
	d.shaky.busy.Store(true)
	for i := range 999 {
		d.command("/v1/payouts", fmt.Sprint("payout-", i), `{}`, customer, failing)
	}
	d.advance(time.Second)
	d.command("/v1/refunds", "refund-1", `{}`, customer, func(w http.ResponseWriter, r *http.Request) {
		_ = core.CallDo(r.Context(), "refund", func(context.Context, core.DerivedKey) error { return errAway }, core.Dedup(time.Hour))
		failing(w, r)
	})
	d.advance(time.Hour)
	require.NotContains(t, d.get("/idem/").text, hint)
	for i := range 2 {
		d.command("/v1/payouts", fmt.Sprint("late-", i), `{}`, customer, failing)
	}
	p := d.get("/idem/")
	require.Equal(t, http.StatusOK, p.Code)
	require.Regexp(t, `(?s)class="card unknown".*>1\x{202f}000<.*class="card half-done".*>1<`, p.html)
	require.Contains(t, p.text, hint)
}

// What was counted an hour ago is forgotten. The numbers are of every tenant, so that only supervisors see them.
//
// CONTRACT S-5
func TestNumbers(t *testing.T) {
	numbers := inspect.NewNumbers()
	d := newDesk(t, func(c *inspect.Config) { c.Numbers = numbers })
	require.NotContains(t, d.get("/idem/").text, "This instance")
	d.caller = chief
	require.Regexp(t, `\b0 attempts began`, d.get("/idem/").text)
	for range 1234 {
		numbers.Observe(t.Context(), core.Event{Kind: core.EventClaimed})
	}
	numbers.Observe(t.Context(), core.Event{Kind: core.EventUnknown})
	p := d.get("/idem/")
	require.Contains(t, p.text, "1\u202f234 attempts began")
	require.Contains(t, p.text, "1 attempts ended with an unknown outcome")
	require.Contains(t, p.html, `<rect class="attempts"`)
	require.Contains(t, p.text, "It counts since 20")
	require.Contains(t, p.text, "Attempts that ended name it "+d.module.Instance().String())
	require.NotContains(t, newDesk(t).get("/idem/").text, "This instance")
}

// The store does not answer: the page says so, and the request is not a 200.
func TestStoreIsGone(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	for _, path := range []string{"", "operations", "operations/" + id.String()} {
		r, w := cancelled(t, "/idem/"+path)
		d.pages.ServeHTTP(w, r)
		require.NotContains(t, w.Body.String(), id.String())
	}
}

// A half-done operation says who goes on with it by the configuration, and from when it is unknown.
//
// CONTRACT X-10
func TestHalfDoneSaysWhoGoesOn(t *testing.T) {
	d := newDesk(t)
	const hint = "2 half-done ones are of routes that this release does not know"
	for _, key := range []string{"refund-1", "refund-2"} {
		d.command("/v1/refunds", key, `{}`, customer, func(w http.ResponseWriter, r *http.Request) {
			_ = core.CallDo(r.Context(), "refund", func(context.Context, core.DerivedKey) error { return errAway }, core.Dedup(time.Hour))
			failing(w, r)
		})
	}
	d.advance(time.Hour)
	overview := d.get("/idem/").text
	require.NotContains(t, overview, "does not know")
	require.Contains(t, overview, "2 half-done ones wait for their clients")
	shown := func(about string) {
		t.Helper()
		require.Contains(t, d.get("/idem/operations").text, about)
		id := core.Scoping{}.RecordID(customer, "refund-1")
		require.Contains(t, d.get("/idem/operations/"+id.String()).text, map[string]string{
			"waits for its client; unknown from 2026-11-23 12:00:00 UTC": "the service does not do so by itself (Config.Resume has no " +
				"function for its route). If it does not end by then, it is unknown from 2026-11-23 12:00:00 UTC on, and can be settled.",
			"goes on by itself; unknown from 2026-11-23 12:00:00 UTC": "The service goes on with it by itself, behind the last finished step",
			"nobody goes on: unknown route":                           "Nothing goes on with it here, and nothing gives it up, until",
		}[about])
	}
	shown("waits for its client; unknown from 2026-11-23 12:00:00 UTC")

	next := func(policy core.Policy, resume map[string]core.Resumer) page {
		module, err := core.New(core.Config{Store: d.store, Now: d.clock, OperatorRoles: []core.IssuerRole{{Issuer: olga.Issuer,
			Role: "operator"}}, Routes: core.Routes{"POST /v2/refunds/:id": policy}, Resume: resume,
			Observer: core.ObserverFunc(func(context.Context, core.Event) {})})
		require.NoError(t, err)
		d.pages, err = inspect.New(inspect.Config{Module: module, Caller: func(*http.Request) (core.Principal, error) { return olga, nil }})
		require.NoError(t, err)
		return d.get("/idem/")
	}
	require.Contains(t, next(core.Policy{Recovery: core.Resume}, nil).text, hint)
	shown("nobody goes on: unknown route")
	renamed := core.Policy{Recovery: core.Resume, Formerly: []string{"/v1/refunds"}}
	require.NotContains(t, next(renamed, nil).text, "does not know")
	shown("waits for its client; unknown from 2026-11-23 12:00:00 UTC")
	overview = next(renamed, map[string]core.Resumer{"POST /v2/refunds/:id": func(context.Context, core.Record) (*core.Answer, error) {
		return nil, errAway
	}}).text
	require.NotContains(t, overview, "wait for their clients")
	shown("goes on by itself; unknown from 2026-11-23 12:00:00 UTC")
}

// limited is a writer that keeps the deadline of its answer.
type limited struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (l *limited) SetWriteDeadline(deadline time.Time) error { l.deadline = deadline; return nil }

// Nobody holds a page for ever by not reading it: no operator, and no stranger.
//
// CONTRACT R-4
func TestPagesHaveADeadline(t *testing.T) {
	d := newDesk(t)
	for _, caller := range []core.Principal{olga, {}} {
		d.caller = caller
		for path, method := range map[string]string{"": http.MethodGet, "style.css": http.MethodGet, "other": http.MethodGet,
			"find": http.MethodPost} {
			w, asked := &limited{ResponseRecorder: httptest.NewRecorder()}, time.Now()
			d.pages.ServeHTTP(w, httptest.NewRequest(method, "/idem/"+path, nil))
			require.WithinRange(t, w.deadline, asked.Add(time.Minute), time.Now().Add(time.Minute), path)
		}
	}
}

// A filter that nothing can pass says so, instead of that nobody is needed.
func TestFiltersThatSelectNothing(t *testing.T) {
	d := newDesk(t)
	d.unknown("payout-7", customer)
	p := d.get("/idem/operations?from=2026-11-23T00:00&until=2026-11-22T00:00")
	require.Equal(t, http.StatusBadRequest, p.Code)
	require.Contains(t, p.text, "The second time is not after the first")
	require.Contains(t, d.get("/idem/operations?route=POST+/v1/payout").text, "This release has no route POST /v1/payout")
	require.Contains(t, d.get("/idem/operations?route=POST+/v1/refunds").text, "No operation needs somebody")
}
