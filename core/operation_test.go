package core_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/mustrun"
)

// operator may see and settle all that is of alice's issuer and tenant.
var operator = core.Principal{Issuer: alice.Issuer, Subject: "olga", Roles: []string{"operator"}}

// newOpsApp is an app with an operator's role.
func newOpsApp(t *testing.T, cfg core.Config, handler http.HandlerFunc) *app {
	t.Helper()
	for _, issuer := range []string{alice.Issuer, "https://other.example", "elsewhere", "i", "j"} {
		cfg.OperatorRoles = append(cfg.OperatorRoles, core.IssuerRole{Issuer: issuer, Role: "auditor"},
			core.IssuerRole{Issuer: issuer, Role: "operator"})
		cfg.SupervisorRoles = append(cfg.SupervisorRoles, core.IssuerRole{Issuer: issuer, Role: "supervisor"})
	}
	return newApp(t, cfg, handler)
}

// written is a reply as a client gets it.
func written(t *testing.T, reply *core.Reply) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	require.NoError(t, reply.WriteTo(w))
	return w
}

func (a *app) operation(p core.Principal, id string) *httptest.ResponseRecorder {
	a.t.Helper()
	return written(a.t, operations.New(a.module).Serve(operations.Show, httptest.NewRequest(http.MethodGet, "/", nil), p, id))
}

func (a *app) operations(p core.Principal, query string) *httptest.ResponseRecorder {
	a.t.Helper()
	return written(a.t, operations.New(a.module).Serve(operations.List, httptest.NewRequest(http.MethodGet, "/?"+query, nil), p, ""))
}

func (a *app) serveSettle(p core.Principal, id, body string) *httptest.ResponseRecorder {
	a.t.Helper()
	return written(a.t, operations.New(a.module).Serve(operations.Settle, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), p, id))
}

// members decodes a JSON object.
func members(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	var m map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &m))
	return m
}

func idOf(key string) string { return core.Scoping{}.RecordID(alice, key).String() }

// CONTRACT M-7, T-4, O-3, F-1
func TestOperations(t *testing.T) {
	inBubble(t, "operation through its life", func(t *testing.T) {
		begun := time.Now().UTC().Format(time.RFC3339Nano)
		common := map[string]any{"id": idOf("k-1"), "method": "POST", "route": pattern, "recovery": "Park", "fence": 1.0,
			"created_at": begun}
		with := func(more map[string]any) map[string]any {
			maps.Copy(more, common)
			return more
		}
		var a *app
		a = newOpsApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, with(map[string]any{"state": "running"}), members(t, a.operation(alice, idOf("k-1"))))
			created(w, r)
		})
		requireProblem(t, a.operation(alice, idOf("k-1")), http.StatusNotFound, core.CodeNotFound)
		a.post("k-1", `{}`)
		expires := time.Now().Add(store.DefaultRetention).UTC().Format(time.RFC3339Nano)
		completed := with(map[string]any{"state": "completed", "outcome": "succeeded", "expires_at": expires,
			"answer": map[string]any{"status": 201.0, "body": map[string]any{"id": 1.0}, "headers": map[string]any{
				"Content-Type": []any{"application/json"}, "Location": []any{"/v1/payments/1"}}}})
		require.Equal(t, completed, members(t, a.operation(alice, idOf("k-1"))))
		require.Equal(t, completed, members(t, a.operation(operator, idOf("k-1"))))

		time.Sleep(store.DefaultRetention)
		expired := with(map[string]any{"state": "expired", "outcome": "succeeded", "expires_at": expires})
		require.Equal(t, expired, members(t, a.operation(alice, idOf("k-1"))))
		time.Sleep(store.DefaultTombstone)
		requireProblem(t, a.operation(alice, idOf("k-1")), http.StatusNotFound, core.CodeNotFound)

		a.handler = status(http.StatusBadGateway)
		begun = time.Now().UTC().Format(time.RFC3339Nano)
		common["created_at"], common["fence"] = begun, 2.0
		a.post("k-1", `{}`)
		require.Equal(t, with(map[string]any{"state": "unknown"}), members(t, a.operation(alice, idOf("k-1"))))
	})
	// Who reads the answer of somebody else by the API leaves a trace, too. Callers who read their own do not.
	t.Run("reading an answer is told", func(t *testing.T) {
		a := newOpsApp(t, core.Config{}, created)
		read := func() (found []core.Event) {
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, e := range a.events {
				if e.Kind == core.EventAnswerRead {
					found = append(found, e)
				}
			}
			return found
		}
		a.post("k-1", `{}`)
		members(t, a.operation(alice, idOf("k-1")))
		own := alice
		own.Roles = append([]string{"operator"}, own.Roles...)
		members(t, a.operation(own, idOf("k-1")))
		require.Empty(t, read())
		members(t, a.operation(operator, idOf("k-1")))
		require.Len(t, read(), 1)
		require.Equal(t, `issuer="`+operator.Issuer+`" subject="olga"`, read()[0].Who)
		require.Equal(t, idOf("k-1"), read()[0].Operation.String())

		a.handler = status(http.StatusBadGateway)
		a.post("k-2", `{}`)
		members(t, a.operation(operator, idOf("k-2")))
		require.Len(t, read(), 1, "an unknown operation has no answer")
	})
	t.Run("who would not get the replay does not get the answer this way either", func(t *testing.T) {
		locked := false
		a := newOpsApp(t, core.Config{Routes: core.Routes{"POST " + pattern: {Recovery: core.Park, Roles: []string{"customer"},
			Review: func(_ context.Context, p core.Principal, r core.Record) error {
				require.Equal(t, alice.Subject, p.Subject)
				require.Equal(t, http.StatusCreated, r.Answer.Status)
				if locked {
					return errors.New("the account is locked")
				}
				return nil
			}}}}, created)
		a.post("k-1", `{}`)
		require.Equal(t, http.StatusOK, a.operation(alice, idOf("k-1")).Code)
		demoted := alice
		demoted.Roles = []string{"guest"}
		requireProblem(t, a.operation(demoted, idOf("k-1")), http.StatusForbidden, core.CodeForbidden)
		locked = true
		w := a.operation(alice, idOf("k-1"))
		requireProblem(t, w, http.StatusForbidden, core.CodeForbidden)
		require.NotContains(t, w.Body.String(), "locked")
		require.Equal(t, http.StatusOK, a.operation(operator, idOf("k-1")).Code)

		a.handler = status(http.StatusBadGateway)
		a.post("k-2", `{}`)
		require.Equal(t, "unknown", members(t, a.operation(alice, idOf("k-2")))["state"], "there is no answer to review")
	})
	inBubble(t, "operations while the store is away", func(t *testing.T) {
		a := newOpsApp(t, core.Config{Store: hangingStore{memstore.New()}}, created)
		for _, w := range []*httptest.ResponseRecorder{
			a.operation(alice, idOf("k-1")), a.operations(operator, ""),
			a.serveSettle(operator, idOf("k-1"), `{"outcome":"not_applied","reason":"r"}`),
		} {
			requireProblem(t, w, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
			require.Equal(t, "2", w.Header().Get("Retry-After"))
		}
	})
	inBubble(t, "list of unknown operations", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		a := newOpsApp(t, core.Config{Store: store}, status(http.StatusBadGateway))
		list := func(query string) (keys []string) {
			w := a.operations(operator, query)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			var views []map[string]any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &views))
			for _, view := range views {
				require.Equal(t, "unknown", view["state"])
				keys = append(keys, view["id"].(string))
			}
			return keys
		}
		require.Equal(t, "[]\n", a.operations(operator, "").Body.String())
		var ids []string
		for i := range 5 {
			time.Sleep(time.Second)
			a.post("k-"+strconv.Itoa(i), `{}`)
			ids = append(ids, idOf("k-"+strconv.Itoa(i)))
		}
		a.handler = created
		a.post("done", `{}`)
		require.Equal(t, ids, list(""))
		require.Equal(t, ids, list("state=unknown&limit=500"))
		require.Equal(t, ids[:2], list("limit=2"))
		require.Equal(t, ids[2:4], list("limit=2&after="+ids[1]))
		require.Equal(t, ids[4:], list("limit=2&after="+ids[3]))
		require.Empty(t, list("after="+ids[4]))

		for _, query := range []string{"state=completed", "state=running", "limit=0", "limit=501", "limit=-1", "limit=1x", "limit=x",
			"limit=1.5", "after=x", "after=" + ids[0][1:]} {
			requireProblem(t, a.operations(operator, query), http.StatusBadRequest, core.CodeBadRequest)
		}
		requireProblem(t, a.operations(operator, "after="+strings.Repeat("1", 64)), http.StatusNotFound, core.CodeNotFound)
		elsewhere := operator
		elsewhere.Tenant = "another"
		requireProblem(t, a.operations(elsewhere, "after="+ids[0]), http.StatusNotFound, core.CodeNotFound)
		requireProblem(t, a.operations(alice, ""), http.StatusForbidden, core.CodeForbidden)
		requireProblem(t, a.operations(core.Principal{}, ""), http.StatusUnauthorized, core.CodeUnauthenticated)

		// A running attempt that has lost its lease is unknown, and is listed as such.
		store.on("renew", away)
		listed := mustrun.New(t)
		a.handler = func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(29 * time.Second)
			require.Equal(t, ids, list(""))
			time.Sleep(time.Second)
			require.Equal(t, append(ids, idOf("lost")), list(""))
			listed()
		}
		time.Sleep(time.Second)
		a.post("lost", `{}`)
	})
}

// CONTRACT M-7, R-4
func TestAnswersOfOperations(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"JSON keeps its digits": {body("application/json", `{"a":9007199254740993, "b":1.10}`), `"body":{"a":9007199254740993,"b":1.10}`},
		"text":                  {body("text/plain", "a \"b\"\n"), `"body":"a \"b\"\n"`},
		"binary":                {body("image/png", "\xff\x00"), `"body_base64":"/wA="`},
		"none":                  {status(402), `"outcome":"refused","created_at":`},
		"partial":               {body("text/plain", strings.Repeat("x", 101)), `"answer":{"status":200,"partial":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			a := newOpsApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, MaxAnswer: 100}}, test.handler)
			a.post("k-1", `{}`)
			require.Contains(t, a.operation(alice, idOf("k-1")).Body.String(), test.want)
		})
	}
}

// body answers 200 with a body.
func body(contentType, content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(content))
	}
}

// CONTRACT M-7, S-1, S-2, O-2
func TestOperationsBelongToTheirPrincipal(t *testing.T) {
	a := newOpsApp(t, core.Config{}, created)
	a.post("k-1", `{}`)
	missing := a.operation(alice, strings.Repeat("0", 64))
	requireProblem(t, missing, http.StatusNotFound, core.CodeNotFound)
	for name, p := range map[string]core.Principal{
		"another subject": {Issuer: alice.Issuer, Subject: "bob", Roles: alice.Roles},
		"another issuer":  {Issuer: "https://other.example", Subject: alice.Subject, Roles: alice.Roles},
		"another tenant":  {Issuer: alice.Issuer, Tenant: "t", Subject: alice.Subject, Roles: alice.Roles},
	} {
		require.Equal(t, missing, a.operation(p, idOf("k-1")), name)
	}
	for _, id := range []string{"", "1", strings.Repeat("x", 64), idOf("k-1") + "0"} {
		requireProblem(t, a.operation(alice, id), http.StatusNotFound, core.CodeNotFound)
	}
	requireProblem(t, a.operation(core.Principal{}, idOf("k-1")), http.StatusUnauthorized, core.CodeUnauthenticated)
	refreshed := alice
	refreshed.Roles = nil
	require.Equal(t, http.StatusOK, a.operation(refreshed, strings.ToUpper(idOf("k-1"))).Code)

	t.Run("without operators nobody is one", func(t *testing.T) {
		a := newApp(t, core.Config{}, created)
		a.post("k-1", `{}`)
		everything := core.Principal{Issuer: "i", Subject: "s", Roles: []string{"operator", ""}}
		requireProblem(t, a.operation(everything, idOf("k-1")), http.StatusNotFound, core.CodeNotFound)
		requireProblem(t, a.operations(everything, ""), http.StatusForbidden, core.CodeForbidden)
		requireProblem(t, a.serveSettle(everything, idOf("k-1"), `{}`), http.StatusForbidden, core.CodeForbidden)
	})
}

// hangingStore is a store that can be written to but does not answer questions in time.
type hangingStore struct{ store.Operations }

func (hangingStore) Find(ctx context.Context, _ core.ID, _ store.Viewer) (core.Record, error) {
	<-ctx.Done()
	return core.Record{}, ctx.Err()
}

func (hangingStore) List(ctx context.Context, _ store.Query) ([]core.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// unknownApp is an app with an unknown operation of the key k-1 that can be settled.
func unknownApp(t *testing.T, st core.Store) *app {
	t.Helper()
	a := newOpsApp(t, core.Config{Store: st, ReplayHeaders: []string{"X-Receipt"}}, status(http.StatusBadGateway))
	a.post("k-1", `{}`)
	requireProblem(t, a.serveSettle(operator, idOf("k-1"), `{"outcome":"not_applied","reason":"r"}`), http.StatusConflict,
		core.CodeNotSettleable)
	time.Sleep(store.DefaultDeadline - 1)
	requireProblem(t, a.serveSettle(operator, idOf("k-1"), `{"outcome":"not_applied","reason":"r"}`), http.StatusConflict,
		core.CodeNotSettleable) // not before lease and deadline have passed
	time.Sleep(time.Nanosecond)
	a.handler = status(http.StatusTeapot)
	return a
}

// CONTRACT X-7, M-7
func TestSettlementsAsOperatorsWriteThem(t *testing.T) {
	id := idOf("k-1")
	asJSON := http.Header{"Content-Type": {"application/json"}}
	applied := func(answer string) string { return `{"outcome":"applied","reason":"r","answer":` + answer + `}` }
	for name, test := range map[string]struct {
		body   string
		status int // of the repeat; 0: the settlement is refused
		header http.Header
		answer string
		detail string // of the refusal
	}{
		"not applied":                           {`{"outcome":"not_applied","reason":"r"}`, 418, nil, "", ""},
		"not applied, nil":                      {`{"outcome":"not_applied","reason":"r","answer":null}`, 418, nil, "", ""},
		"applied":                               {`{"outcome":"applied","reason":"r"}`, 201, asJSON, `{"operation":"` + id + `","status":"settled"}`, ""},
		"applied, nil":                          {applied(`null`), 201, asJSON, `{"operation":"` + id + `","status":"settled"}`, ""},
		"a body":                                {applied(`{"id":7, "amount":1.10}`), 201, asJSON, `{"id":7, "amount":1.10}`, ""},
		"a body with a status of its own":       {applied(`{"id":7,"status":"paid"}`), 201, asJSON, `{"id":7,"status":"paid"}`, ""},
		"a body with nothing but such a status": {applied(`{"status":"paid"}`), 201, asJSON, `{"status":"paid"}`, ""},
		"a body with a number as status":        {applied(`{"status":200,"amount":5}`), 201, asJSON, `{"status":200,"amount":5}`, ""},
		"a list":                                {applied(`[1,2]`), 201, asJSON, `[1,2]`, ""},
		"a string":                              {applied(`"x"`), 201, asJSON, `"x"`, ""},
		"explicit": {applied(`{"status":202,"headers":{"location":"/7"},"body":{"id":7}}`), 202,
			http.Header{"Content-Type": {"application/json"}, "Location": {"/7"}}, `{"id":7}`, ""},
		"explicit refusal": {applied(`{"status":402}`), 402, asJSON, "", ""},
		"explicit text": {applied(`{"status":200,"headers":{"content-type":"text/plain"},"body":"hi"}`), 200,
			http.Header{"Content-Type": {"text/plain"}}, "hi", ""},
		"explicit problem": {applied(`{"status":422,"headers":{"content-type":"application/problem+json"},"body":"hi"}`), 422,
			http.Header{"Content-Type": {"application/problem+json"}}, `"hi"`, ""},
		"a header of the app's own": {applied(`{"status":200,"headers":{"x-receipt":"7"}}`), 200,
			http.Header{"Content-Type": {"application/json"}, "X-Receipt": {"7"}}, "", ""},

		"nothing":            {``, 0, nil, "", "want a JSON object"},
		"no JSON":            {`{`, 0, nil, "", "want a JSON object"},
		"a list for all":     {`[]`, 0, nil, "", "want a JSON object"},
		"two values":         {`{"outcome":"not_applied","reason":"r"}{}`, 0, nil, "", "want a JSON object"},
		"misspelt":           {`{"outcome":"applied","reason":"r","anwser":{"id":7}}`, 0, nil, "", "no other member: see /anwser"},
		"twice":              {`{"outcome":"applied","outcome":"not_applied","reason":"r"}`, 0, nil, "", "want a JSON object"},
		"other case":         {`{"outcome":"applied","Outcome":"not_applied","reason":"r"}`, 0, nil, "", "want a JSON object"},
		"empty":              {`{}`, 0, nil, "", "outcome: want"},
		"another outcome":    {`{"outcome":"maybe","reason":"r"}`, 0, nil, "", "outcome: want"},
		"no reason":          {`{"outcome":"applied"}`, 0, nil, "", "reason: is required"},
		"a negative fence":   {`{"outcome":"applied","reason":"r","fence":-1}`, 0, nil, "", "fence: want that of the operation"},
		"a blank reason":     {`{"outcome":"not_applied","reason":" "}`, 0, nil, "", "reason: is required"},
		"answer to nothing":  {`{"outcome":"not_applied","reason":"r","answer":{"id":7}}`, 0, nil, "", "answer: "},
		"a failure":          {applied(`{"status":500}`), 0, nil, "", "answer: want a status of 200 to 499"},
		"informal":           {applied(`{"status":199}`), 0, nil, "", "answer: want a status"},
		"half a status":      {applied(`{"status":200.5}`), 0, nil, "", "answer: want a status"},
		"a negative status":  {applied(`{"status":-1}`), 0, nil, "", "answer: want a status"},
		"lists of headers":   {applied(`{"status":200,"headers":{"Location":["/7"]}}`), 0, nil, "", "headers with one string each"},
		"a forbidden header": {applied(`{"status":200,"headers":{"Set-Cookie":"a=1"}}`), 0, nil, "", "answer.headers: only"},
		"a split header":     {applied(`{"status":200,"headers":{"Location":"/\r\nSet-Cookie: a"}}`), 0, nil, "", "answer.headers: only"},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := unknownApp(t, memstore.New())
			w := a.serveSettle(operator, id, test.body)
			if test.status == 0 {
				requireProblem(t, w, http.StatusBadRequest, core.CodeBadRequest)
				require.Contains(t, w.Body.String(), test.detail)
				requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
				return
			}
			settled := members(t, w)
			require.Equal(t, id, settled["id"])
			require.EqualValues(t, 2, settled["fence"], "a settlement raises the fence")
			repeat := a.post("k-1", `{}`)
			require.Equal(t, test.status, repeat.Code)
			if test.status == http.StatusTeapot {
				require.Equal(t, "free", settled["state"])
				require.Equal(t, 2, a.ran())
				return
			}
			require.Equal(t, "completed", settled["state"])
			require.Equal(t, test.answer, repeat.Body.String())
			require.Equal(t, "reused", repeat.Header().Get("Idempotency-Result"))
			for _, own := range []string{"Idempotency-Key", "Idempotency-Result", "Idempotent-Replayed"} {
				repeat.Header().Del(own)
			}
			require.Equal(t, test.header, repeat.Header())
			require.Equal(t, 1, a.ran())
		})
	}
}

// CONTRACT X-7, O-2, R-3, R-6
func TestSettlements(t *testing.T) {
	inBubble(t, "settlement is final and kept", func(t *testing.T) {
		st := memstore.New()
		a := unknownApp(t, st)
		inTenant := operator
		inTenant.Tenant, inTenant.Roles = "t", []string{"supervisor"}
		require.Equal(t, http.StatusOK, a.serveSettle(inTenant, idOf("k-1"), `{"outcome":"applied","reason":"seen"}`).Code)
		for _, again := range []string{`{"outcome":"applied","reason":"again"}`, `{"outcome":"not_applied","reason":"again"}`} {
			requireProblem(t, a.serveSettle(operator, idOf("k-1"), again), http.StatusConflict, core.CodeNotSettleable)
		}
		history := st.Settlements(core.Scoping{}.RecordID(alice, "k-1"))
		require.Len(t, history, 1)
		require.Equal(t, `issuer="`+alice.Issuer+`" tenant="t" subject="olga"`, history[0].Who, "the tenant counts")
		require.Equal(t, "seen", history[0].Why)
		require.Equal(t, time.Now(), history[0].At)
		require.Equal(t, store.Unknown, history[0].Before.State())
		require.Equal(t, store.Completed, history[0].After.State())

		for _, refused := range a.of(core.EventSettleRefused) {
			require.Equal(t, core.Event{Kind: core.EventSettleRefused, Operation: core.Scoping{}.RecordID(alice, "k-1"),
				Who: `issuer="` + alice.Issuer + `" subject="olga"`, Code: core.CodeNotSettleable}, refused)
		}
		require.NotEmpty(t, a.of(core.EventSettleRefused))
		last := a.of(core.EventSettled)[0]
		require.Equal(t, core.Event{Kind: core.EventSettled, Who: history[0].Who, Operation: core.Scoping{}.RecordID(alice, "k-1"), Method: "POST", Route: pattern,
			Recovery: core.Park, Fence: 2, Status: 201, Why: "seen", Outcome: "applied",
			Digest: fmt.Sprintf("%x", sha256.Sum256(find(t, st, "k-1").Answer.Body))}, last)
		rec := find(t, st, "k-1")
		require.Equal(t, store.DefaultRetention, rec.ExpiresAt.Sub(rec.Now))
		require.Equal(t, store.DefaultTombstone, rec.PurgeAt.Sub(rec.ExpiresAt))
	})
	inBubble(t, "settlements that are refused", func(t *testing.T) {
		a := unknownApp(t, memstore.New())
		w := a.serveSettle(operator, idOf("k-1"), `{"outcome":"not_applied","reason":"r","fence":7}`)
		requireProblem(t, w, http.StatusConflict, core.CodeNotSettleable)
		require.Contains(t, w.Body.String(), "the fence that the decision is about")
		const fine = `{"outcome":"not_applied","reason":"r"}`
		requireProblem(t, a.serveSettle(core.Principal{}, idOf("k-1"), fine), http.StatusUnauthorized, core.CodeUnauthenticated)
		requireProblem(t, a.serveSettle(alice, idOf("k-1"), fine), http.StatusForbidden, core.CodeForbidden)
		requireProblem(t, a.serveSettle(operator, "x", fine), http.StatusNotFound, core.CodeNotFound)
		requireProblem(t, a.serveSettle(operator, idOf("other"), fine), http.StatusNotFound, core.CodeNotFound)
		failing := httptest.NewRequest(http.MethodPost, "/", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(fine))))
		requireProblem(t, written(t, operations.New(a.module).Serve(operations.Settle, failing, operator, idOf("k-1"))), http.StatusBadRequest, core.CodeBodyUnreadable)
		a.handler = created
		a.post("done", `{}`)
		requireProblem(t, a.serveSettle(operator, idOf("done"), fine), http.StatusConflict, core.CodeNotSettleable)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
	})
	inBubble(t, "decisions of the app", func(t *testing.T) {
		a := unknownApp(t, memstore.New())
		id := core.Scoping{}.RecordID(alice, "k-1")
		answer := func(status int) *core.Answer { return &core.Answer{Status: status} }
		for _, test := range []struct {
			decision core.Decision
			want     string
		}{
			{core.Decision{Why: "w"}, "Who is required"},
			{core.Decision{Who: "\t", Why: "w"}, "Who is required"},
			{core.Decision{Who: "w"}, "Why is required"},
			{core.Decision{Who: "w", Why: "\n"}, "Why is required"},
			{core.Decision{Who: "w", Why: "a\x00b"}, "valid UTF-8, no NUL"},
			{core.Decision{Who: "a\xffb", Why: "w"}, "valid UTF-8, no NUL"},
			{core.Decision{Who: "w", Why: "w", Undone: "a\x00b"}, "valid UTF-8, no NUL"},
			{core.Decision{Who: "w", Why: "w", Applied: true}, "Answer is required"},
			{core.Decision{Who: "w", Why: "w", Applied: true, Answer: answer(199)}, "200 to 499"},
			{core.Decision{Who: "w", Why: "w", Applied: true, Answer: answer(500)}, "200 to 499"},
			{core.Decision{Who: "w", Why: "w", Answer: answer(200)}, "has no Answer"},
		} {
			_, err := operations.New(a.module).Settle(t.Context(), id, test.decision)
			require.ErrorContains(t, err, "idem: Settle: ")
			require.ErrorContains(t, err, test.want)
		}
		_, err := operations.New(a.module).Settle(t.Context(), core.Scoping{}.RecordID(alice, "other"), core.Decision{Who: "w", Why: "w"})
		require.ErrorIs(t, err, core.ErrNotFound)

		rec, err := operations.New(a.module).Settle(t.Context(), id, core.Decision{Who: "w", Why: "w", Applied: true, Answer: &core.Answer{
			Status: 499, Header: http.Header{"Location": {"/7"}, "Set-Cookie": {"provider=1"}, "Date": {"x"}}, Body: []byte("b")}})
		require.NoError(t, err)
		require.Equal(t, store.Completed, rec.State())
		w := a.post("k-1", `{}`)
		require.Equal(t, 499, w.Code)
		require.Equal(t, "/7", w.Header().Get("Location"))
		require.Empty(t, w.Header().Values("Set-Cookie"))
		require.Empty(t, w.Header().Values("Date"))

		_, err = operations.New(a.module).Settle(t.Context(), id, core.Decision{Who: "w", Why: "w"})
		require.ErrorIs(t, err, store.ErrNotSettleable)
	})
	inBubble(t, "one of many settlements wins", func(t *testing.T) {
		st := memstore.New()
		a := unknownApp(t, st)
		results := make(chan error, 8)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, err := operations.New(a.module).Settle(t.Context(), core.Scoping{}.RecordID(alice, "k-1"), core.Decision{Who: "w", Why: "w"})
				results <- err
			})
		}
		wg.Wait()
		close(results)
		won := 0
		for err := range results {
			if err == nil {
				won++
			} else if !errors.Is(err, store.ErrNotSettleable) && !errors.Is(err, core.ErrStale) {
				t.Error(err)
			}
		}
		require.Equal(t, 1, won)
		require.Len(t, st.Settlements(core.Scoping{}.RecordID(alice, "k-1")), 1)
	})
	// A settlement that was refused has done nothing: what is misspelt is corrected, and what is too early now is repeated
	// later, under the same key.
	inBubble(t, "refused settlement frees its key", func(t *testing.T) {
		a := newOpsApp(t, core.Config{}, status(http.StatusBadGateway))
		a.post("k-1", `{}`)
		a.handler = func(w http.ResponseWriter, r *http.Request) {
			_ = operations.New(a.module).Serve(operations.Settle, r, operator, idOf("k-1")).WriteTo(w)
		}
		settle := func() *httptest.ResponseRecorder {
			return a.postAs(operator, "s-1", `{"outcome":"not_applied","reason":"r"}`)
		}
		misspelt := a.postAs(operator, "s-1", `{"outcome":"not_applied","raeson":"r"}`)
		requireProblem(t, misspelt, http.StatusBadRequest, core.CodeBadRequest)
		requireProblem(t, settle(), http.StatusConflict, core.CodeNotSettleable)
		time.Sleep(store.DefaultDeadline)
		w := settle()
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, "created", w.Header().Get("Idempotency-Result"))
		require.Equal(t, "reused", settle().Header().Get("Idempotency-Result"))
	})
}

// CONTRACT X-7
func TestSettlementCommitsWithItsCommand(t *testing.T) {
	a := newRowsApp(t, core.Config{Routes: core.Routes{
		"POST " + pattern: {Recovery: core.Park, Lease: time.Second, Deadline: time.Second},
		"POST /settle":    {Recovery: core.Rollback},
	}}, status(http.StatusBadGateway))
	a.post("k-1", `{}`)
	rec := a.record("k-1")
	require.Eventually(t, func() bool { r := a.record("k-1"); return !r.Now.Before(r.Deadline) }, 10*time.Second, 10*time.Millisecond)

	a.pattern = "/settle"
	settles := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			settled, err := operations.New(a.module).Settle(r.Context(), rec.ID, core.Decision{Who: "w", Why: "w", Applied: true,
				Answer: &core.Answer{Status: 200, Body: []byte("settled")}})
			require.NoError(t, err)
			require.Equal(t, rec.Fence+1, settled.Fence)
			next(w, r)
		}
	}
	a.handler = settles(status(http.StatusInternalServerError))
	require.Equal(t, http.StatusInternalServerError, a.post("s-1", `{}`).Code)
	require.Equal(t, store.Unknown, a.record("k-1").State(), "undone with the attempt")
	a.handler = settles(status(http.StatusOK))
	require.Equal(t, http.StatusOK, a.post("s-1", `{}`).Code)
	require.Equal(t, store.Completed, a.record("k-1").State())
	a.pattern = pattern
	require.Equal(t, "settled", a.post("k-1", `{}`).Body.String())
}

// A customer's own identity provider may call its roles as it likes.
//
// CONTRACT S-6, S-5
func TestRolesCountFromTheirIssuerOnly(t *testing.T) {
	const staff, customers = "https://staff.example", "https://login.customer.example"
	a := newApp(t, core.Config{
		OperatorRoles:   []core.IssuerRole{{Issuer: staff, Role: "operator"}, {Issuer: customers, Role: "clerk"}},
		SupervisorRoles: []core.IssuerRole{{Issuer: staff, Role: "supervisor"}},
	}, status(http.StatusBadGateway))
	a.post("k-1", `{}`)
	id := core.Scoping{}.RecordID(alice, "k-1").String()
	for name, test := range map[string]struct {
		issuer, role string
		settled      int
		seen         int
	}{
		"a supervisor of the staff":     {staff, "supervisor", 200, 200},
		"an operator of the staff":      {staff, "operator", 404, 404}, // of another realm
		"a supervisor by the customers": {customers, "supervisor", 403, 404},
		"an operator by the customers":  {customers, "operator", 403, 404},
		"a clerk by the customers":      {customers, "clerk", 404, 404},
		"a clerk by the staff":          {staff, "clerk", 403, 404},
	} {
		t.Run(name, func(t *testing.T) {
			p := core.Principal{Issuer: test.issuer, Subject: "mallory", Roles: []string{test.role}}
			ask := httptest.NewRequest(http.MethodGet, "/v1/operations/"+id, nil)
			require.Equal(t, test.seen, operations.New(a.module).Serve(operations.Show, ask, p, id).Status)
			_, problem := operations.New(a.module).Operator(ask, p, nil)
			require.Equal(t, test.settled == 403, problem != nil)
			if test.settled == 200 {
				return // a settlement is final: the others must find the operation unsettled
			}
			settle := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"outcome":"not_applied","reason":"r"}`))
			require.Equal(t, test.settled, operations.New(a.module).Serve(operations.Settle, settle, p, id).Status)
		})
	}
	require.Empty(t, a.of(core.EventSettled))
}
