// Package smoketest drives an example app over HTTP, as a process of its own.
package smoketest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/internal/apptest"
)

// Commands sends commands to a program that runs on SQLite, and ends it in the middle of them. Both apps pass it. What each
// route promises is for package contract, and crashes on PostgreSQL are for package crash.
func Commands(t *testing.T, program string) {
	t.Parallel()
	for name, run := range map[string]func(a *app){
		"api": api, "killed payment": killedPayment, "crashed payout": crashedPayout, "abandoned refund": abandonedRefund,
		"pushed refund": pushedRefund, "marked payment": markedPayment,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &app{t: t, program: program, dir: t.TempDir(), env: []string{"LEASE=1s", "DEADLINE=4s", "UNSAFE_SIMULATOR=1"}}
			a.start()
			run(a)
			a.checkLog()
		})
	}
}

// Processes tests what both apps share below their routes: the settings, one process on a SQLite file, and
// processes that pause. One app is enough.
func Processes(t *testing.T, program string) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, program string){
		"settings": settings, "cors": cors, "one process per SQLite file": oneProcess, "jwks": jwks,
		"overtaken": overtaken, "wakes unsettled": wakesUnsettled, "stopped under load": stoppedUnderLoad,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, program)
		})
	}
}

// app is an app under test, which can be started again on the same database.
type app struct {
	*apptest.Process
	t       *testing.T
	program string
	dir     string
	env     []string
}

func (a *app) start() { a.Process = apptest.Start(a.t, a.program, a.dir, a.env...) }

// Callers, by the names of the app's ready-made tokens.
const (
	customer = "customer-1"
	stranger = "customer-2"
	seller   = "seller-1"
	operator = "operator-1"
)

// secret begins every key and body of these tests: the log must not show it.
const secret = "s3cret-"

func (a *app) post(who, path, key, body string) apptest.Response {
	a.t.Helper()
	return a.Do(a.t, post(a, who, path, key, body))
}

func post(a *app, who, path, key, body string) apptest.Request {
	return apptest.Request{Method: "POST", Path: path, Token: a.Tokens[who], Key: secret + key, Body: body}
}

func (a *app) get(who, path string) apptest.Response {
	a.t.Helper()
	return a.Do(a.t, apptest.Request{Method: "GET", Path: path, Token: a.Tokens[who]})
}

// ledger counts the entries of a kind.
func (a *app) ledger(kind string) (entries []shop.Line) {
	a.t.Helper()
	var all []shop.Line
	a.get(operator, "/v1/ledger").Decode(a.t, &all)
	for _, line := range all {
		if line.Kind == kind {
			entries = append(entries, line)
		}
	}
	return entries
}

// checkReplay asserts that second is the recorded answer first, byte for byte.
func (a *app) checkReplay(first, second apptest.Response) {
	a.t.Helper()
	require.Equal(a.t, "created", first.Header.Get("Idempotency-Result"))
	require.Empty(a.t, first.Header.Get("Idempotent-Replayed"))
	require.Equal(a.t, first.Status, second.Status)
	require.Equal(a.t, first.Body, second.Body)
	require.Equal(a.t, first.Header.Get("Location"), second.Header.Get("Location"))
	require.Equal(a.t, first.Header.Get("Content-Type"), second.Header.Get("Content-Type"))
	require.Equal(a.t, "reused", second.Header.Get("Idempotency-Result"))
	require.Equal(a.t, "true", second.Header.Get("Idempotent-Replayed"))
}

// checkProblem asserts that an answer is a problem with the given status and code.
func (a *app) checkProblem(r apptest.Response, status int, code string) {
	a.t.Helper()
	require.Equal(a.t, status, r.Status, r.Body)
	require.Equal(a.t, "application/problem+json", r.Header.Get("Content-Type"))
	require.Equal(a.t, code, r.Code(), r.Body)
}

// checkLog asserts that the log shows no key, token or body.
func (a *app) checkLog() {
	a.t.Helper()
	for _, hidden := range []string{secret, "eyJ"} {
		if strings.Contains(a.Log(), hidden) {
			a.t.Errorf("the log shows %q:\n%s", hidden, a.Log())
		}
	}
}

func payment(amount, method string) string {
	return `{"order_id":"` + secret + `order","amount":"` + amount + `","currency":"EUR","method":"` + method + `"}`
}

func payout(amount, method string) string {
	return `{"amount":"` + amount + `","currency":"EUR","method":"` + method + `"}`
}
