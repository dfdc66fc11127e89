package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	olga     = core.Principal{Issuer: "https://issuer.example", Tenant: "shop-1", Subject: "olga", Roles: []string{"operator"}}
	other    = core.Principal{Issuer: "https://issuer.example", Tenant: "shop-2", Subject: "otto", Roles: []string{"operator"}}
	chief    = core.Principal{Issuer: "https://issuer.example", Subject: "chief", Roles: []string{"supervisor"}}
	customer = core.Principal{Issuer: "https://issuer.example", Tenant: "shop-1", Subject: "alice", Roles: []string{"customer"}}
)

const (
	settleRoute   = "POST /v1/operations/:id/settle"
	retryRoute    = "POST /v1/operations/:id/retry"
	giveUpRoute   = "POST /v1/operations/:id/give-up"
	refuseRoute   = "POST /v1/keys/refusals"
	markRoute     = "POST /v1/operations/marks"
	eraseRoute    = "POST /v1/erasures"
	restorerRoute = "POST /v1/restorers/marks"
)

// desk is an app with the pages, whose clock the test moves.
type desk struct {
	t      *testing.T
	module *core.Module
	store  *memstore.Store
	shaky  *shakyStore // what the module sees of it
	pages  http.Handler
	caller core.Principal // the zero one is not signed in

	mu     sync.Mutex
	now    time.Time
	events []core.Event
}

// newDesk makes a desk. change may change the configuration of the pages.
func newDesk(t *testing.T, change ...func(*inspect.Config)) *desk {
	t.Helper()
	return newScopedDesk(t, core.Scoping{}, change...)
}

func newScopedDesk(t *testing.T, scoping core.Scoping, change ...func(*inspect.Config)) *desk {
	t.Helper()
	d := &desk{t: t, caller: olga, now: time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)}
	d.store = memstore.New(memstore.WithClock(d.clock))
	d.shaky = &shakyStore{Store: d.store}
	var err error
	d.module, err = core.New(core.Config{
		Store: d.shaky, Scoping: scoping, Now: d.clock, OperatorRoles: []core.IssuerRole{{Issuer: "https://issuer.example", Role: "operator"}}, SupervisorRoles: []core.IssuerRole{{Issuer: "https://issuer.example", Role: "supervisor"}},
		Routes: core.Routes{
			"POST /v1/payouts":       {Recovery: core.Park, Roles: []string{"customer"}},
			"POST /v1/refunds":       {Recovery: core.Resume, Roles: []string{"customer"}},
			"POST /v1/wires":         {Recovery: core.Park, Roles: []string{"customer"}, TwoToSettle: true},
			retryRoute:               {Recovery: core.Park, Roles: []string{"operator", "supervisor"}},
			giveUpRoute:              {Recovery: core.Park, Roles: []string{"operator", "supervisor"}},
			settleRoute:              {Recovery: core.Park, Roles: []string{"operator", "supervisor"}},
			refuseRoute:              {Recovery: core.Park, Roles: []string{"supervisor"}},
			markRoute:                {Recovery: core.Park, Roles: []string{"supervisor"}},
			eraseRoute:               {Recovery: core.Resume, Roles: []string{"operator", "supervisor"}},
			restorerRoute:            {Recovery: core.Park, Roles: []string{"restorer"}},
			"POST /v1/timed":         {Recovery: core.Park, KeyFormat: core.TimedKey, KeyAge: time.Hour},
			"PATCH /v1/profile/:one": {Exempt: "moves no money"},
		},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.events = append(d.events, e)
		}),
	})
	require.NoError(t, err)
	cfg := inspect.Config{Module: d.module, Settle: settleRoute, Retry: retryRoute, GiveUp: giveUpRoute,
		Refuse: refuseRoute, Mark: markRoute, Erase: eraseRoute, SignIn: "/login",
		Caller: func(*http.Request) (core.Principal, error) {
			if !d.caller.Valid() {
				return olga, errors.New("no login") // a principal beside an error counts for nothing
			}
			return d.caller, nil
		},
	}
	for _, fn := range change {
		fn(&cfg)
	}
	d.pages, err = inspect.New(cfg)
	require.NoError(t, err)
	return d
}

// shakyStore is a store whose connection breaks when a test wants it to.
type shakyStore struct {
	*memstore.Store
	away  atomic.Bool // reads fail
	loses atomic.Bool // a settlement commits, its confirmation is lost, and then the store is away

	panics atomic.Bool // so do settlements
	busy   atomic.Bool // it has no time to count more than 1,000
}

var errAway = errors.New("the connection broke off")

func (s *shakyStore) Find(ctx context.Context, id core.ID, v store.Viewer) (core.Record, error) {
	if s.away.Load() {
		return core.Record{}, errAway
	}
	return s.Store.Find(ctx, id, v)
}

func (s *shakyStore) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	if s.busy.Load() && q.Limit > 1000 {
		return nil, context.DeadlineExceeded
	}
	return s.Store.Count(ctx, q)
}

func (s *shakyStore) Settle(ctx context.Context, settlement store.Settlement) (core.Record, error) {
	if s.panics.Load() {
		panic("a settlement")
	}
	rec, err := s.Store.Settle(ctx, settlement)
	if err == nil && s.loses.Load() {
		s.away.Store(true)
		return core.Record{}, errAway
	}
	return rec, err
}

func (s *shakyStore) Intervene(ctx context.Context, i store.Intervention) (core.Record, error) {
	rec, err := s.Store.Intervene(ctx, i)
	if err == nil && s.loses.Load() {
		s.away.Store(true)
		return core.Record{}, errAway
	}
	return rec, err
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

// kinds returns the events of a kind.
func (d *desk) kinds(kind core.EventKind) (found []core.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// command sends a command of a customer.
func (d *desk) command(route, key, body string, p core.Principal, handler http.HandlerFunc) *core.Reply {
	d.t.Helper()
	r := httptest.NewRequest(http.MethodPost, route, strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	r, reply := d.module.Admit(r, route, p)
	if reply != nil {
		return reply
	}
	attempt, reply := d.module.Begin(r, route, p)
	if reply != nil {
		return reply
	}
	w := httptest.NewRecorder()
	handler(attempt.Capture(w), attempt.Request())
	return attempt.Finish()
}

// broken is a handler that fails in the middle.
func failing(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }

// unknown makes an unknown payout of a principal, which can be settled now.
func (d *desk) unknown(key string, p core.Principal) core.ID {
	d.t.Helper()
	d.command("/v1/payouts", key, `{"amount":"1.00"}`, p, failing)
	d.advance(2 * store.DefaultDeadline)
	return core.Scoping{}.RecordID(p, key)
}

// page is an answer of the pages.
type page struct {
	*httptest.ResponseRecorder
	html string
	text string // without tags
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// ask sends a request as a browser does that shows a page of this site.
func (d *desk) ask(method, path string, form url.Values, header ...string) page {
	d.t.Helper()
	r := httptest.NewRequest(method, "https://shop.example"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	d.pages.ServeHTTP(w, r)
	p := page{ResponseRecorder: w, html: w.Body.String()}
	p.text = spaces.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(p.html, " ")), " ")
	return p
}

func (d *desk) get(path string) page { d.t.Helper(); return d.ask(http.MethodGet, path, nil) }

// form opens the form of an operation, and fills in what a browser would send of it.
func (d *desk) form(id core.ID, outcome, why string) url.Values {
	d.t.Helper()
	p := d.get("/idem/operations/" + id.String() + "/settle")
	require.Equal(d.t, http.StatusOK, p.Code, p.text)
	word := strings.ReplaceAll(outcome, "_", " ")
	return url.Values{"key": {p.hidden(d.t, "key")}, "fence": {p.hidden(d.t, "fence")}, "who": {p.hidden(d.t, "who")}, "outcome": {outcome}, "why": {why},
		"status": {"201"}, "body": {""}, "confirm": {word + " " + id.String()[56:]}}
}

// hidden returns the value of a hidden field.
func (p page) hidden(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile(fmt.Sprintf(`name=%q value="([^"]*)"`, name)).FindStringSubmatch(p.html)
	require.Len(t, found, 2, name)
	return html.UnescapeString(found[1])
}

func (d *desk) settle(id core.ID, form url.Values) page {
	d.t.Helper()
	return d.ask(http.MethodPost, "/idem/operations/"+id.String()+"/settle", form)
}

// cancelled is a request whose client has gone.
func cancelled(t *testing.T, path string) (*http.Request, *httptest.ResponseRecorder) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx), httptest.NewRecorder()
}
