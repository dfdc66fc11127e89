package smoketest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/apptest"
)

// answer is what came of a request.
type answer struct {
	apptest.Response
	err error
}

// inFlight sends a slow request twice: as soon as one is told that the other is in flight, or that SQLite's one writer
// is busy with it, it returns. What comes of the other is sent on the channel.
func (a *app) inFlight(r apptest.Request) <-chan answer {
	a.t.Helper()
	process, ctx := a.Process, a.t.Context()
	answers := make(chan answer, 2)
	for range cap(answers) {
		go func() {
			response, err := process.Try(ctx, r)
			answers <- answer{response, err}
		}()
	}
	first := <-answers
	require.NoError(a.t, first.err)
	require.Contains(a.t, []string{"in_flight", "store_unavailable"}, first.Code(), first.Body)
	return answers
}

// killedPayment kills the app with kill -9 in the middle of a payment. After the restart a repeat pays once.
//
// CONTRACT
func killedPayment(a *app) {
	pay := post(a, customer, "/v1/payments", "pay", payment("10.00", "pm_slow"))
	running := a.inFlight(pay)
	a.Kill(a.t)
	require.Error(a.t, (<-running).err)

	a.start()
	require.Empty(a.t, a.ledger("payment"))
	paid := a.Until(a.t, &pay, func(r apptest.Response) bool { return r.Code() != "in_flight" })
	require.Equal(a.t, http.StatusCreated, paid.Status, paid.Body)
	a.checkReplay(paid, a.Do(a.t, pay))
	require.Len(a.t, a.ledger("payment"), 1)
}

// operations lists the unknown operations.
func (a *app) operations() (ids []string) {
	a.t.Helper()
	var list []struct{ ID string }
	a.get(operator, "/v1/operations?state=unknown").Decode(a.t, &list)
	for _, operation := range list {
		ids = append(ids, operation.ID)
	}
	return ids
}

// settle settles an operation as soon as its lease and deadline have passed.
func (a *app) settle(operation, key, decision string) apptest.Response {
	a.t.Helper()
	settle := post(a, operator, "/v1/operations/"+operation+"/settle", key, decision)
	return a.Until(a.t, &settle, func(r apptest.Response) bool {
		if r.Status == http.StatusOK {
			return true
		}
		a.checkProblem(r, http.StatusConflict, "not_settleable")
		settle.Key += "x" // the refusal is recorded: asking again is a new command
		return false
	})
}

// crashedPayout lets the app end itself after the provider was charged: only the provider knows it then.
func crashedPayout(a *app) {
	_, err := a.Try(a.t.Context(), post(a, seller, "/v1/payouts", "payout", payout("50.00", "pm_crash")))
	require.Error(a.t, err)
	a.Wait(a.t)

	a.start()
	repeat := post(a, seller, "/v1/payouts", "payout", payout("50.00", "pm_crash"))
	unknown := a.Until(a.t, &repeat, func(r apptest.Response) bool { return r.Code() != "in_flight" })
	a.checkProblem(unknown, http.StatusConflict, "outcome_unknown")
	charged := a.ledger("provider")
	require.Len(a.t, charged, 1)
	require.Empty(a.t, a.ledger("payout"))
	require.Equal(a.t, []string{charged[0].Operation}, a.operations())

	settled := a.settle(charged[0].Operation, "settle",
		`{"outcome":"applied","answer":{"id":"by hand"},"reason":"the provider's ledger has it"}`)
	require.Contains(a.t, settled.Body, `"state":"completed"`)
	replayed := a.Do(a.t, repeat)
	require.Equal(a.t, http.StatusCreated, replayed.Status)
	require.JSONEq(a.t, `{"id":"by hand"}`, replayed.Body)
	require.Equal(a.t, "true", replayed.Header.Get("Idempotent-Replayed"))

	second := a.post(operator, "/v1/operations/"+charged[0].Operation+"/settle", "second",
		`{"outcome":"not_applied","reason":"a second opinion"}`)
	a.checkProblem(second, http.StatusConflict, "not_settleable")
	require.Len(a.t, a.ledger("provider"), 1)
	require.Empty(a.t, a.operations())
}

// abandonedRefund lets the app end itself after the provider was charged, and its client does not come back: the next
// process goes on with the refund by itself.
//
// CONTRACT
func abandonedRefund(a *app) {
	var paid struct{ ID string }
	a.post(customer, "/v1/payments", "pay", payment("10.00", "pm_ok")).Decode(a.t, &paid)
	refund := post(a, customer, "/v1/payments/"+paid.ID+"/refunds", "refund", `{"amount":"4.00","method":"pm_crash"}`)
	_, err := a.Try(a.t.Context(), refund)
	require.Error(a.t, err)
	a.Wait(a.t)

	time.Sleep(time.Second) // its lease: Run looks for lost attempts when it starts, and then once a minute
	a.start()
	ledger := apptest.Request{Method: http.MethodGet, Path: "/v1/ledger", Token: a.Tokens[operator]}
	a.Until(a.t, &ledger, func(r apptest.Response) bool { return strings.Contains(r.Body, `"kind":"refund"`) })
	repeat := a.Do(a.t, refund)
	require.Equal(a.t, http.StatusCreated, repeat.Status, repeat.Body)
	require.Equal(a.t, "reused", repeat.Header.Get("Idempotency-Result"))
	require.Contains(a.t, repeat.Body, `"status":"refunded"`)
	require.Len(a.t, a.ledger("provider"), 1)
	require.Len(a.t, a.ledger("refund"), 1)
}

// pushedRefund has a refund whose provider never answers: an operator lets it be tried again, gives it up, and settles it.
//
// CONTRACT
func pushedRefund(a *app) {
	var paid struct{ ID string }
	a.post(customer, "/v1/payments", "pay", payment("10.00", "pm_ok")).Decode(a.t, &paid)
	refund := post(a, customer, "/v1/payments/"+paid.ID+"/refunds", "refund", `{"amount":"4.00","method":"pm_stuck"}`)
	require.Equal(a.t, http.StatusBadGateway, a.Do(a.t, refund).Status)
	var list []struct {
		ID    string
		Fence int64
	}
	half := apptest.Request{Method: http.MethodGet, Path: "/v1/operations?state=half_done", Token: a.Tokens[operator]}
	a.Until(a.t, &half, func(r apptest.Response) bool { r.Decode(a.t, &list); return len(list) == 1 })
	path := "/v1/operations/" + list[0].ID
	body := fmt.Sprintf(`{"fence":%d,"reason":"the provider is back"}`, list[0].Fence)
	a.checkProblem(a.post(customer, path+"/retry", "not-mine", body), http.StatusForbidden, "forbidden")
	a.checkProblem(a.post(operator, path+"/settle", "too-early", `{"outcome":"not_applied","reason":"r"}`), http.StatusConflict,
		"not_settleable")
	require.Equal(a.t, http.StatusAccepted, a.post(operator, path+"/retry", "retry", body).Status)
	list = nil // Run goes on at once, in vain, with another fence
	a.Until(a.t, &half, func(r apptest.Response) bool {
		r.Decode(a.t, &list)
		return len(list) == 1 && list[0].Fence > 1
	})
	body = fmt.Sprintf(`{"fence":%d,"reason":"the provider has closed the account"}`, list[0].Fence)
	require.Equal(a.t, http.StatusOK, a.post(operator, path+"/give-up", "give-up", body).Status)
	a.checkProblem(a.Do(a.t, refund), http.StatusConflict, "outcome_unknown")
	settled := a.settle(list[0].ID, "settle",
		`{"outcome":"applied","answer":{"status":"refunded"},"reason":"the ledger has it"}`)
	require.Contains(a.t, settled.Body, `"state":"completed"`)
	require.Len(a.t, a.ledger("provider"), 1)

	refused := a.post(operator, "/v1/keys/refusals", "refusal", `{"before":"2026-01-01T00:00:00Z","reason":"a restore"}`)
	require.Equal(a.t, http.StatusOK, refused.Status, refused.Body)
	require.Contains(a.t, refused.Body, "key_too_old")
}

// markedPayment has a payment that a restore has lost and a provider's list names: a supervisor marks it, its repeat does
// not run, and it is settled.
//
// CONTRACT F-4, M-4, X-7
func markedPayment(a *app) {
	id := core.Scoping{}.RecordID(core.Principal{Issuer: "https://issuer.example", Subject: customer}, secret+"lost").String()
	body := `{"ids":["` + id + `"],"reason":"the provider's list of the gap"}`
	a.checkProblem(a.post(customer, "/v1/operations/marks", "not-mine", body), http.StatusForbidden, "forbidden")
	marked := a.post(operator, "/v1/operations/marks", "mark", body)
	require.Equal(a.t, http.StatusOK, marked.Status, marked.Body)
	require.JSONEq(a.t, `{"marked":1,"left":0,"running":0}`, marked.Body)
	require.JSONEq(a.t, marked.Body, a.post(operator, "/v1/operations/marks", "mark", body).Body, "its repeat is a replay")
	require.JSONEq(a.t, `{"marked":0,"left":1,"running":0}`, a.post(operator, "/v1/operations/marks", "mark-again", body).Body)
	require.Equal(a.t, http.StatusNotFound, a.get(customer, "/v1/operations/"+id).Status, "nobody knows yet whose it is")
	a.checkProblem(a.post(customer, "/v1/payments", "lost", payment("10.00", "pm_ok")), http.StatusConflict, "outcome_unknown")
	require.Contains(a.t, a.get(customer, "/v1/operations/"+id).Body, `"state":"unknown"`)
	a.settle(id, "settle", `{"outcome":"applied","answer":{"status":"captured"},"reason":"the provider has it"}`)
	require.Contains(a.t, a.post(customer, "/v1/payments", "lost", payment("10.00", "pm_ok")).Body, "captured")
	require.Empty(a.t, a.ledger("payment"))
}
