package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
)

// CONTRACT M-4, M-7, M-8, X-7
func showAndSettle(t *testing.T, a Adapter) {
	var ahead atomic.Int64 // nanoseconds
	store := memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
	one := "/operations/" + param(a, "id")
	operators := []core.IssuerRole{{Issuer: Issuer, Role: "operator"}}
	supervisors := []core.IssuerRole{{Issuer: Issuer, Role: "supervisor"}}
	idem := NewModule(t, core.Config{Store: store, OperatorRoles: operators, SupervisorRoles: supervisors, Routes: core.Routes{
		"POST /v1/keys/refusals":      {Recovery: core.Park, Roles: []string{"supervisor"}},
		"POST /v1/operations/marks":   {Recovery: core.Park, Roles: []string{"supervisor"}},
		"POST /v1/operations/find":    {Exempt: "changes nothing", Roles: []string{"operator"}},
		"POST /v1/pay":                {Recovery: core.Park},
		"POST /v1/wire":               {Recovery: core.Park, TwoToSettle: true},
		"POST /v1" + one + "/settle":  {Recovery: core.Park, Roles: []string{"operator"}},
		"POST /v1/refund":             {Recovery: core.Resume},
		"POST /v1" + one + "/retry":   {Recovery: core.Park, Roles: []string{"operator"}},
		"POST /v1" + one + "/give-up": {Recovery: core.Park, Roles: []string{"operator"}},
	}})
	var runs atomic.Int64
	app := a.New()
	v1 := app.Group("/v1", a.JWTGuard(NewVerifier(t)), a.Idempotent(idem))
	v1.Handle(http.MethodPost, "/pay", a.Handler(func(Context) error { runs.Add(1); return errors.New("after the charge") }))
	v1.Handle(http.MethodPost, "/wire", a.Handler(func(Context) error { return errors.New("after the charge") }))
	v1.Handle(http.MethodGet, "/operations", a.Operations(idem, operations.List))
	v1.Handle(http.MethodPost, "/operations/find", a.Operations(idem, operations.Find))
	v1.Handle(http.MethodGet, "/operation", a.Operations(idem, operations.Own))
	v1.Handle(http.MethodGet, one, a.Operations(idem, operations.Show))
	v1.Handle(http.MethodPost, one+"/settle", a.Operations(idem, operations.Settle))
	v1.Handle(http.MethodPost, "/refund", a.Handler(func(c Context) error {
		away := func(context.Context, core.DerivedKey) error { return errors.New("away") }
		return core.CallDo(c.Request().Context(), "refund", away, core.Dedup(time.Hour))
	}))
	v1.Handle(http.MethodPost, one+"/retry", a.Operations(idem, operations.Retry))
	v1.Handle(http.MethodPost, one+"/give-up", a.Operations(idem, operations.GiveUp))
	v1.Handle(http.MethodPost, "/keys/refusals", a.Operations(idem, operations.RefuseKeys))
	v1.Handle(http.MethodPost, "/operations/marks", a.Operations(idem, operations.Mark))
	require.NoError(t, app.Audit(idem))
	client := Serve(t, app)
	operator := Sign(t, ClaimsOf("operator-1", "operator"))

	require.Equal(t, "unknown", client.Do(Call{Key: "key-1"}).Result())
	refused := client.Do(Call{Key: "key-1"})
	RequireProblem(t, http.StatusConflict, "outcome_unknown", refused)
	require.Contains(t, refused.Body, `"safe_new_key":false`)
	var problem struct{ Operation string }
	require.NoError(t, json.Unmarshal([]byte(refused.Body), &problem))

	ask := Call{Method: http.MethodGet, Path: "/v1/operations/" + problem.Operation}
	require.Contains(t, client.Do(ask).Body, `"state":"unknown"`)
	ask.Token = Sign(t, ClaimsOf("customer-2"))
	RequireProblem(t, http.StatusNotFound, "operation_not_found", client.Do(ask))
	ask.Token = operator
	require.Contains(t, client.Do(ask).Body, `"state":"unknown"`)

	own := Call{Method: http.MethodGet, Path: "/v1/operation", Key: "key-1"}
	require.Contains(t, client.Do(own).Body, problem.Operation)
	own.Key = "key-2"
	RequireProblem(t, http.StatusNotFound, "operation_not_found", client.Do(own))

	list := Call{Method: http.MethodGet, Path: "/v1/operations?state=unknown"}
	RequireProblem(t, http.StatusForbidden, "forbidden", client.Do(list))
	list.Token = operator
	require.Contains(t, client.Do(list).Body, problem.Operation)

	find := Call{Path: "/v1/operations/find", Body: `{"text":"` + problem.Operation[:8] + `"}`}
	RequireProblem(t, http.StatusForbidden, "forbidden", client.Do(find))
	find.Token = operator
	require.Contains(t, client.Do(find).Body, problem.Operation)

	settle := Call{Path: "/v1/operations/" + problem.Operation + "/settle", Key: "settle-1",
		Body: `{"outcome":"applied","answer":{"id":"pay-1"},"reason":"seen at the provider"}`}
	RequireProblem(t, http.StatusForbidden, "forbidden", client.Do(settle))
	settle.Token = operator
	RequireProblem(t, http.StatusConflict, "not_settleable", client.Do(settle)) // its deadline has not passed
	ahead.Store(int64(2 * time.Minute))
	settle.Key = "settle-2"
	require.Contains(t, client.RequireReplay(settle).Body, `"state":"completed"`)
	settle.Key = "settle-3"
	RequireProblem(t, http.StatusConflict, "not_settleable", client.Do(settle))

	again := client.Do(Call{Key: "key-1"})
	require.Equal(t, http.StatusCreated, again.Status)
	require.JSONEq(t, `{"id":"pay-1"}`, again.Body)
	require.EqualValues(t, 1, runs.Load())

	twoToSettle(t, client, operator, &ahead)

	require.Equal(t, "unknown", client.Do(Call{Path: "/v1/refund", Key: "refund-1"}).Result())
	ahead.Store(int64(8 * time.Minute))
	half := client.Do(Call{Method: http.MethodGet, Path: "/v1/operations?state=half_done", Token: operator})
	var listed []struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(half.Body), &listed))
	require.Len(t, listed, 1)
	push := Call{Path: "/v1/operations/" + listed[0].ID + "/retry", Key: "retry-1", Body: `{"fence":1,"reason":"it is back"}`}
	RequireProblem(t, http.StatusForbidden, "forbidden", client.Do(push))
	push.Token = operator
	require.Equal(t, http.StatusAccepted, client.RequireReplay(push).Status)
	push.Path, push.Key = "/v1/operations/"+listed[0].ID+"/give-up", "give-up-1"
	require.Contains(t, client.RequireReplay(push).Body, `"state":"unknown"`)

	refusal := Call{Path: "/v1/keys/refusals", Key: "refuse-1", Token: operator,
		Body: `{"before":"2026-01-01T00:00:00Z","reason":"a restore"}`}
	RequireProblem(t, http.StatusForbidden, "forbidden", client.Do(refusal))
	refusal.Token = Sign(t, ClaimsOf("supervisor-1", "supervisor"))
	require.Contains(t, client.RequireReplay(refusal).Body, `key_too_old`)

	lost := core.Scoping{}.RecordID(core.Principal{Issuer: Issuer, Subject: "customer-1"}, "lost-1")
	mark := Call{Path: "/v1/operations/marks", Key: "mark-1", Token: operator,
		Body: `{"ids":["` + lost.String() + `"],"reason":"the provider's list"}`}
	RequireProblem(t, http.StatusForbidden, "forbidden", client.Do(mark))
	mark.Token = refusal.Token
	require.JSONEq(t, `{"marked":1,"left":0,"running":0}`, client.RequireReplay(mark).Body)
	RequireProblem(t, http.StatusConflict, "outcome_unknown", client.Do(Call{Key: "lost-1"}))
	require.EqualValues(t, 1, runs.Load())
}

// A settlement is proposed by one operator, and carried out by another one who sends its digest.
func twoToSettle(t *testing.T, client *Client, operator string, ahead *atomic.Int64) {
	require.Equal(t, "unknown", client.Do(Call{Path: "/v1/wire", Key: "wire-1"}).Result())
	ahead.Store(int64(4 * time.Minute))
	var of struct{ Operation string }
	require.NoError(t, json.Unmarshal([]byte(client.Do(Call{Path: "/v1/wire", Key: "wire-1"}).Body), &of))
	settle := func(token, key, body string) Call {
		return Call{Path: "/v1/operations/" + of.Operation + "/settle", Token: token, Key: key, Body: body}
	}
	body := `{"outcome":"applied","answer":{"id":"w-1"},"reason":"seen at the provider","fence":1`
	RequireProblem(t, http.StatusConflict, "not_settleable", client.Do(settle(operator, "two-1", body+`}`)))
	RequireProblem(t, http.StatusForbidden, "forbidden", client.Do(settle("", "two-2", body+`,"propose":true}`)))
	proposed := client.RequireReplay(settle(operator, "two-3", body+`,"propose":true}`))
	require.Equal(t, http.StatusAccepted, proposed.Status)
	var view struct{ Proposal struct{ Digest string } }
	require.NoError(t, json.Unmarshal([]byte(proposed.Body), &view))
	RequireProblem(t, http.StatusConflict, "outcome_unknown", client.Do(Call{Path: "/v1/wire", Key: "wire-1"}))
	own := Call{Method: http.MethodGet, Path: "/v1/operations/" + of.Operation}
	require.NotContains(t, client.Do(own).Body, "proposal")
	second := `{"fence":1,"digest":"` + view.Proposal.Digest + `","reason":"I see it, too"`
	RequireProblem(t, http.StatusConflict, "not_settleable", client.Do(settle(operator, "two-4", second+`}`)))
	other := Sign(t, ClaimsOf("operator-2", "operator"))
	require.Contains(t, client.Do(Call{Method: http.MethodGet, Path: own.Path, Token: other}).Body, view.Proposal.Digest)
	require.Contains(t, client.RequireReplay(settle(other, "two-5", second+`,"withdraw":true}`)).Body, `"state":"unknown"`)
	RequireProblem(t, http.StatusConflict, "not_settleable", client.Do(settle(other, "two-6", second+`}`)))
	again := client.RequireReplay(settle(operator, "two-7", body+`,"propose":true}`))
	require.NoError(t, json.Unmarshal([]byte(again.Body), &view))
	// The digest is of a proposal: that of the one that was withdrawn says nothing of this one.
	RequireProblem(t, http.StatusConflict, "not_settleable", client.Do(settle(other, "two-8", second+`}`)))
	second = `{"fence":1,"digest":"` + view.Proposal.Digest + `","reason":"I see it, too"`
	require.Contains(t, client.RequireReplay(settle(other, "two-9", second+`}`)).Body, `"state":"completed"`)
	require.JSONEq(t, `{"id":"w-1"}`, client.Do(Call{Path: "/v1/wire", Key: "wire-1"}).Body)
}

// An operator erases a customer's records: the answer is gone, and the key stays taken.
//
// CONTRACT M-1, M-5, S-5
func erasures(t *testing.T, a Adapter) {
	operators := []core.IssuerRole{{Issuer: Issuer, Role: "operator"}}
	idem := NewModule(t, core.Config{Store: memstore.New(), OperatorRoles: operators,
		Observer: core.ObserverFunc(func(context.Context, core.Event) {}),
		Routes: core.Routes{
			"POST /v1/pay":      {Recovery: core.Park},
			"POST /v1/erasures": {Recovery: core.Resume, Roles: []string{"operator"}},
		}})
	app := a.New()
	v1 := app.Group("/v1", a.JWTGuard(NewVerifier(t)), a.Idempotent(idem))
	v1.Handle(http.MethodPost, "/pay", a.Handler(func(c Context) error {
		c.Writer().WriteHeader(http.StatusCreated)
		return nil
	}))
	v1.Handle(http.MethodPost, "/erasures", a.Operations(idem, operations.Erase))
	require.NoError(t, app.Audit(idem))
	client := Serve(t, app)
	require.Equal(t, http.StatusCreated, client.Do(Call{Key: "key-1"}).Status)

	erase := Call{Path: "/v1/erasures", Key: "erase-1",
		Body: `{"principal":{"issuer":"` + Issuer + `","subject":"customer-1"},"reason":"request 7"}`}
	RequireProblem(t, http.StatusForbidden, "forbidden", client.Do(erase))
	erase.Token = Sign(t, ClaimsOf("operator-1", "operator"))
	require.JSONEq(t, `{"records":1,"open":[]}`, client.RequireReplay(erase).Body)
	RequireProblem(t, http.StatusConflict, "key_expired", client.Do(Call{Key: "key-1"}))
}
