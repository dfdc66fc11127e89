package core_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

var (
	otto   = core.Principal{Issuer: alice.Issuer, Subject: "otto", Roles: []string{"operator"}}
	takes2 = core.Config{Policy: core.Policy{Recovery: core.Park, TwoToSettle: true}}
)

// twoOf is an app whose settlements take two, with an operation k-1 that can be settled.
func twoOf(t *testing.T, cfg core.Config) (*app, *memstore.Store) {
	t.Helper()
	st := memstore.New()
	cfg.Store = st
	a := newOpsApp(t, cfg, status(http.StatusBadGateway))
	a.post("k-1", `{}`)
	time.Sleep(2 * store.DefaultDeadline)
	return a, st
}

const proposal = `{"outcome":"applied","answer":{"status":202,"headers":{"Location":"/p/1"},"body":{"id":"p-1"}},` +
	`"reason":"charge ch_1","fence":1,"propose":true}`

// proposes proposes something, and returns the digest.
func (a *app) proposes(p core.Principal, body string) string {
	a.t.Helper()
	w := a.serveSettle(p, idOf("k-1"), body)
	require.Equal(a.t, http.StatusAccepted, w.Code, w.Body)
	var view struct {
		State    string
		Proposal struct{ Digest string }
	}
	require.NoError(a.t, json.Unmarshal(w.Body.Bytes(), &view))
	require.Equal(a.t, "unknown", view.State)
	require.Len(a.t, view.Proposal.Digest, 64)
	return view.Proposal.Digest
}

func about(fence int, digest, more string) string {
	return fmt.Sprintf(`{"fence":%d,"digest":%q,"reason":"I see it, too"%s}`, fence, digest, more)
}

// refusedWith sends a settlement that is refused, and wants these words in the problem's detail.
func (a *app) refusedWith(p core.Principal, body, detail string) {
	a.t.Helper()
	w := a.serveSettle(p, idOf("k-1"), body)
	requireProblem(a.t, w, http.StatusConflict, core.CodeNotSettleable)
	require.Contains(a.t, w.Body.String(), detail)
}

// One proposes, another one carries it out with the digest. Nobody outside hears of the proposal.
//
// CONTRACT X-7, S-5
func TestTwoToSettle(t *testing.T) {
	inBubble(t, "proposed and carried out", func(t *testing.T) {
		a, st := twoOf(t, takes2)
		a.refusedWith(operator, `{"outcome":"applied","reason":"r","fence":1}`, "take two (TwoToSettle)")
		a.refusedWith(operator, `{"outcome":"not_applied","reason":"r"}`, "take two (TwoToSettle)")
		a.refusedWith(otto, about(1, strings.Repeat("0", 64), ""), "no open proposal")
		before := find(t, st, "k-1")
		digest := a.proposes(operator, proposal)
		after := find(t, st, "k-1")
		require.Equal(t, before, after)

		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		require.NotContains(t, a.operation(alice, idOf("k-1")).Body.String(), "proposal")
		seen := members(t, a.operation(otto, idOf("k-1")))["proposal"].(map[string]any)
		require.Equal(t, map[string]any{"who": operator.Name(), "reason": "charge ch_1", "outcome": "applied", "digest": digest,
			"created_at": time.Now().UTC().Format(time.RFC3339Nano), "answer": map[string]any{"status": 202.0,
				"headers": map[string]any{"Location": []any{"/p/1"}, "Content-Type": []any{"application/json"}},
				"body":    map[string]any{"id": "p-1"}}}, seen)

		a.refusedWith(operator, about(1, digest, ""), "the same principal has proposed it")
		a.refusedWith(otto, about(1, strings.Repeat("0", 64), ""), "the digest is not that of the proposal")
		a.refusedWith(otto, about(2, digest, ""), "another attempt, settlement or proposal has come")
		a.refusedWith(operator, proposal, "a proposal about this attempt already")
		a.refusedWith(otto, `{"outcome":"applied","reason":"r","fence":1}`, "take two")
		require.Empty(t, st.Settlements(core.Scoping{}.RecordID(alice, "k-1")))

		w := a.serveSettle(otto, idOf("k-1"), about(1, digest, ""))
		require.Equal(t, "completed", members(t, w)["state"])
		repeat := a.post("k-1", `{}`)
		require.Equal(t, http.StatusAccepted, repeat.Code)
		require.JSONEq(t, `{"id":"p-1"}`, repeat.Body.String())
		require.Equal(t, "/p/1", repeat.Header().Get("Location"))
		history := st.Settlements(core.Scoping{}.RecordID(alice, "k-1"))
		require.Len(t, history, 1)
		require.Equal(t, []string{otto.Name(), "I see it, too"}, []string{history[0].Who, history[0].Why})
		told := a.of(core.EventProposed)
		require.Len(t, told, 1)
		require.Equal(t, []string{operator.Name(), "charge ch_1", "applied", digest},
			[]string{told[0].Who, told[0].Why, told[0].Outcome, told[0].Digest})
		told = a.of(core.EventSettled)
		require.Len(t, told, 1)
		require.Equal(t, []string{otto.Name(), operator.Name()}, []string{told[0].Who, told[0].Proposer})

		for _, p := range []core.Principal{operator, otto} { // it is final
			a.refusedWith(p, about(2, digest, `,"withdraw":true`), "no open proposal")
			a.refusedWith(p, strings.Replace(proposal, `"fence":1`, `"fence":2`, 1), "only an unknown operation")
			a.refusedWith(p, `{"outcome":"applied","reason":"r"}`, "only an unknown operation")
		}
	})
	inBubble(t, "as not applied", func(t *testing.T) {
		a, st := twoOf(t, takes2)
		digest := a.proposes(operator, `{"outcome":"not_applied","reason":"no charge","fence":1,"propose":true}`)
		require.Equal(t, "free", members(t, a.serveSettle(otto, idOf("k-1"), about(1, digest, "")))["state"])
		require.Equal(t, store.Free, find(t, st, "k-1").State())
	})
}

// Who is another principal: by issuer, tenant and subject, and by nothing else.
//
// CONTRACT X-7, S-1, S-2
func TestTheSecondIsAnotherPrincipal(t *testing.T) {
	other := func(change func(*core.Principal)) core.Principal {
		p := core.Principal{Issuer: alice.Issuer, Tenant: "t", Client: "desk", Subject: "olga", Roles: []string{"supervisor"}}
		change(&p)
		return p
	}
	first := other(func(*core.Principal) {})
	eachInBubble(t, map[string]struct {
		second core.Principal
		want   int
	}{
		"the same":                  {first, http.StatusConflict},
		"the same, another client":  {other(func(p *core.Principal) { p.Client = "phone" }), http.StatusConflict},
		"the same, with more roles": {other(func(p *core.Principal) { p.Roles = append(p.Roles, "operator") }), http.StatusConflict},
		"another subject":           {other(func(p *core.Principal) { p.Subject = "otto" }), http.StatusOK},
		"another tenant":            {other(func(p *core.Principal) { p.Tenant = "u" }), http.StatusOK},
		"another issuer":            {other(func(p *core.Principal) { p.Issuer = "https://other.example" }), http.StatusOK},
		"quotes in the subject":     {other(func(p *core.Principal) { p.Tenant, p.Subject = "", `t" subject="olga` }), http.StatusOK},
	}, func(t *testing.T, c struct {
		second core.Principal
		want   int
	}) {
		a, _ := twoOf(t, takes2)
		require.Equal(t, c.want, a.serveSettle(c.second, idOf("k-1"), about(1, a.proposes(first, proposal), "")).Code)
	})
}

// A proposal is withdrawn by anybody who may settle. Then it is carried out by nobody, and another one may come.
//
// CONTRACT X-7
func TestAProposalIsWithdrawn(t *testing.T) {
	inBubble(t, "by a colleague", func(t *testing.T) {
		a, _ := twoOf(t, takes2)
		digest := a.proposes(operator, proposal)
		a.refusedWith(otto, about(1, strings.Repeat("0", 64), `,"withdraw":true`), "the digest is not that of the proposal")
		w := a.serveSettle(otto, idOf("k-1"), about(1, digest, `,"withdraw":true`))
		require.Equal(t, "unknown", members(t, w)["state"])
		require.Len(t, a.of(core.EventWithdrawn), 1)
		require.Equal(t, otto.Name(), a.of(core.EventWithdrawn)[0].Who)
		a.refusedWith(otto, about(1, digest, ""), "no open proposal")
		a.refusedWith(otto, about(1, digest, `,"withdraw":true`), "no open proposal")
		require.NotContains(t, a.operation(otto, idOf("k-1")).Body.String(), "proposal")

		other := strings.Replace(proposal, `"p-1"`, `"p-2"`, 1)
		require.NotEqual(t, digest, a.proposes(otto, other))
		a.refusedWith(operator, about(1, digest, ""), "the digest is not that of the proposal")
	})
}

// A decision that this release does not know frees no key: it can only be withdrawn.
//
// CONTRACT X-7
func TestProposalOfAnUnknownFormIsUnread(t *testing.T) {
	id := core.Scoping{}.RecordID(alice, "k-1")
	for _, text := range []string{`{"outcome":"partly_applied","status":201}`, `{}`, `null`, `{"outcome":"applied"}`,
		`{"outcome":"applied","status":201,"only_if":"x"}`, `{"outcome":"not_applied","status":201}`} {
		inBubble(t, text, func(t *testing.T) {
			a, st := twoOf(t, takes2)
			now := time.Now()
			require.NoError(t, st.Propose(t.Context(), store.Note{ID: id, Token: [16]byte{1}, Who: operator.Name(), Text: "r",
				Fence: 1, Decision: []byte(text)}, store.Window{From: now.Add(-time.Hour), To: now.Add(time.Hour)}))
			seen := members(t, a.operation(otto, idOf("k-1")))["proposal"].(map[string]any)
			w := a.serveSettle(otto, idOf("k-1"), about(1, seen["digest"].(string), ""))
			require.Equal(t, http.StatusConflict, w.Code, "%v: %s", seen, w.Body)
		})
	}
}

// CONTRACT X-7
func TestProposalsThatAreRefused(t *testing.T) {
	inBubble(t, "all", func(t *testing.T) {
		a, _ := twoOf(t, takes2)
		long := strings.Replace(proposal, "charge ch_1", strings.Repeat("x", 17<<10), 1)
		require.Equal(t, http.StatusBadRequest, a.serveSettle(operator, idOf("k-1"), long).Code, "lists show the reason")
		for want, answer := range map[string]core.Answer{
			"text": {Status: 201, Header: http.Header{"Link": {"\xc3", "\xa9"}}}, "Partial": {Status: 201, Partial: true},
		} {
			_, err := operations.New(a.module).Propose(t.Context(), core.Scoping{}.RecordID(alice, "k-1"), operator,
				core.Decision{Applied: true, Why: "r", Fence: 1, Answer: &answer})
			require.ErrorContains(t, err, want)
		}
	})
}

// What a body says must be whole, and no more.
//
// CONTRACT X-7
func TestProposalsAreStrict(t *testing.T) {
	inBubble(t, "bodies", func(t *testing.T) {
		a, _ := twoOf(t, takes2)
		digest := a.proposes(operator, proposal)
		for _, body := range []string{
			`{"outcome":"applied","reason":"r","propose":true}`, `{"outcome":"applied","reason":" ","fence":1,"propose":true}`,
			`{"reason":"r","fence":1,"propose":true}`, about(1, digest, `,"propose":true`), about(1, digest, `,"outcome":"applied"`),
			about(1, digest, `,"answer":{}`), about(1, digest, `,"undone":"u"`), about(0, digest, ``), about(-1, digest, ``),
			`{"fence":1,"reason":"r","withdraw":true}`, `{"fence":1,"digest":"` + digest + `"}`, about(1, digest, `,"propose":1`),
			`{"fence":1,"reason":"r","outcome":"applied","withdraw":true}`,
		} {
			requireProblem(t, a.serveSettle(otto, idOf("k-1"), body), http.StatusBadRequest, core.CodeBadRequest)
		}
		for _, p := range []core.Principal{alice, {Issuer: "https://other.example", Subject: "x", Roles: []string{"operator"}}} {
			require.GreaterOrEqual(t, a.serveSettle(p, idOf("k-1"), about(1, digest, ``)).Code, http.StatusForbidden)
		}
		id, ops := core.Scoping{}.RecordID(alice, "k-1"), operations.New(a.module)
		for name, d := range map[string]operations.Second{
			"no principal": {Why: "r", Fence: 1, Digest: digest},
			"nobody":       {By: core.Principal{Issuer: "i"}, Why: "r", Fence: 1, Digest: digest},
			"no fence":     {By: otto, Why: "r", Digest: digest},
			"no reason":    {By: otto, Fence: 1, Digest: digest},
			"no digest":    {By: otto, Why: "r", Fence: 1},
		} {
			_, err := ops.CarryOut(t.Context(), id, d)
			require.Error(t, err, name)
			require.NotErrorIs(t, err, store.ErrNotSettleable, name)
			require.Error(t, ops.Withdraw(t.Context(), id, d), name)
			_, err = ops.Propose(t.Context(), id, d.By, core.Decision{Why: d.Why, Fence: d.Fence, Applied: true})
			require.Error(t, err, name)
		}
		_, err := ops.Propose(t.Context(), id, otto, core.Decision{Who: "olga", Why: "r", Fence: 1})
		require.ErrorContains(t, err, "Who is the name of the principal")
		_, err = ops.Propose(t.Context(), id, otto, core.Decision{Why: "r", Fence: 1,
			Applied: true, Answer: &core.Answer{Status: 201, Header: http.Header{"Location": {"\xff"}}}})
		require.ErrorIs(t, err, store.ErrNotSettleable, "one is open")
		_, err = ops.CarryOut(t.Context(), id, operations.Second{By: otto, Why: "r", Fence: 1, Digest: digest})
		require.NoError(t, err)
	})
}

// A proposal about an attempt settles no later one, and an operation that goes on is not proposed to be settled.
//
// CONTRACT
func TestAProposalIsAboutOneAttempt(t *testing.T) {
	inBubble(t, "a newer fence", func(t *testing.T) {
		a, _ := twoOf(t, core.Config{}) // one may settle, and may propose
		digest := a.proposes(operator, proposal)
		require.Equal(t, http.StatusOK, a.serveSettle(otto, idOf("k-1"), `{"outcome":"not_applied","reason":"r","fence":1}`).Code)
		a.refusedWith(otto, about(2, digest, ""), "no open proposal")
		a.post("k-1", `{}`)
		time.Sleep(2 * store.DefaultDeadline)
		a.refusedWith(otto, about(1, digest, ""), "another attempt, settlement or proposal has come")
		a.refusedWith(otto, about(3, digest, ""), "no open proposal")
		require.NotContains(t, a.operation(otto, idOf("k-1")).Body.String(), "proposal")
		require.Equal(t, http.StatusOK, a.serveSettle(otto, idOf("k-1"), about(3, a.proposes(operator,
			strings.Replace(proposal, `"fence":1`, `"fence":3`, 1)), "")).Code)
	})
	inBubble(t, "half-done, then given up", func(t *testing.T) {
		st := memstore.New()
		s := take{fail: "charge"}
		a := newOpsApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume, TwoToSettle: true}},
			flow(func(ctx context.Context) (int, error) { return 0, s.steps(ctx, "reserve", "charge") }).ServeHTTP)
		a.post("k-1", `{}`)
		time.Sleep(2 * store.DefaultDeadline)
		a.refusedWith(operator, proposal, "half-done")
		require.Equal(t, http.StatusOK, a.push(operations.GiveUp, `{"fence":1,"reason":"r"}`).Code, "one gives it up")
		a.refusedWith(operator, `{"outcome":"applied","reason":"r","fence":1}`, "take two")
		undone := `{"outcome":"not_applied","reason":"r","fence":1,"propose":true`
		a.refusedWith(operator, undone+`}`, "steps of the operation have finished")
		digest := a.proposes(operator, undone+`,"undone":"reservation 7 was given back"}`)
		require.Equal(t, http.StatusOK, a.serveSettle(otto, idOf("k-1"), about(1, digest, "")).Code)
		require.Equal(t, "reservation 7 was given back", st.Settlements(core.Scoping{}.RecordID(alice, "k-1"))[1].Undone)
	})
}

// Config.Reconcile settles alone. A proposal that is open then has come to nothing.
//
// CONTRACT X-7
func TestReconcileNeedsNoSecond(t *testing.T) {
	inBubble(t, "beside a proposal", func(t *testing.T) {
		cfg := takes2
		cfg.Reconcile = func(context.Context, core.Record) (*core.Decision, error) {
			return &core.Decision{Applied: true, Answer: &core.Answer{Status: 201}, Who: "reconciler", Why: "the provider has it"}, nil
		}
		a, st := twoOf(t, cfg)
		digest := a.proposes(operator, proposal)
		stop := a.start()
		defer stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, store.Completed, find(t, st, "k-1").State())
		require.Equal(t, "reconciler", st.Settlements(core.Scoping{}.RecordID(alice, "k-1"))[0].Who)
		a.refusedWith(otto, about(2, digest, ""), "no open proposal")
	})
}

// Which operations take two, where the route is not known: all, if one route does.
//
// CONTRACT X-7
func TestTwoToSettleOfAnUnknownRoute(t *testing.T) {
	inBubble(t, "a route that has gone", func(t *testing.T) {
		for _, two := range []bool{false, true} {
			st := memstore.New()
			before := newOpsApp(t, core.Config{Store: st}, status(http.StatusBadGateway))
			before.post("k-1", `{}`)
			time.Sleep(2 * store.DefaultDeadline)
			a := newOpsApp(t, core.Config{Store: st, Routes: core.Routes{
				"POST /v1/payouts": {Recovery: core.Park, TwoToSettle: two}, "POST /v1/other": {Recovery: core.Park}}}, nil)
			w := a.serveSettle(operator, idOf("k-1"), `{"outcome":"applied","reason":"r","fence":1}`)
			require.Equal(t, two, w.Code == http.StatusConflict, w.Body)
		}
	})
	two := core.Routes{"POST /v1/payouts": {Recovery: core.Park}}
	m := newOpsApp(t, core.Config{Routes: two, Policy: core.Policy{TwoToSettle: true}}, nil).module
	require.True(t, operations.New(m).TakesTwo(core.Record{Method: http.MethodPost, Route: "/v1/payouts"}), "it is inherited")
	require.False(t, operations.New(newOpsApp(t, core.Config{Routes: two}, nil).module).TakesTwo(core.Record{Method: http.MethodPost, Route: "/v1/payouts"}))
}

// alone is a store that keeps no proposals.
type alone struct{ store.Operations }

// CONTRACT X-7
func TestTwoToSettleNeedsAStore(t *testing.T) {
	for name, cfg := range map[string]core.Config{
		"own":       {Policy: core.Policy{Recovery: core.Park, TwoToSettle: true}},
		"a route":   {Routes: core.Routes{"POST /v1/payouts": {Recovery: core.Park, TwoToSettle: true}}},
		"inherited": {Routes: core.Routes{"POST /v1/payouts": {Recovery: core.Park}}, Policy: core.Policy{TwoToSettle: true}},
	} {
		cfg.Store = alone{memstore.New()}
		_, err := core.New(cfg)
		require.ErrorContains(t, err, "TwoToSettle: needs a store that keeps proposals (store.Proposals)", name)
	}
	inBubble(t, "asked without", func(t *testing.T) {
		a := newOpsApp(t, core.Config{Store: alone{memstore.New()}}, status(http.StatusBadGateway))
		a.post("k-1", `{}`)
		time.Sleep(2 * store.DefaultDeadline)
		a.refusedWith(operator, proposal, "keeps no proposals")
		a.refusedWith(operator, about(1, strings.Repeat("0", 64), ""), "no open proposal")
		a.refusedWith(operator, about(1, strings.Repeat("0", 64), `,"withdraw":true`), "keeps no proposals")
	})
}

// The log names both, what was decided and the digests, and no reason and no answer.
//
// CONTRACT O-7
func TestTheLogOfAProposal(t *testing.T) {
	inBubble(t, "carried out", func(t *testing.T) {
		a, _ := twoOf(t, takes2)
		digest := a.proposes(operator, proposal)
		require.Equal(t, http.StatusOK, a.serveSettle(otto, idOf("k-1"), about(1, digest, "")).Code)
		var out bytes.Buffer
		log := core.LogObserver(slog.New(slog.NewJSONHandler(&out, nil)))
		for _, e := range append(a.of(core.EventProposed), a.of(core.EventSettled)...) {
			log.Observe(t.Context(), e)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 2)
		require.Contains(t, lines[0], `"msg":"idem: proposed"`)
		require.Contains(t, lines[0], digest)
		require.Contains(t, lines[1], `"who":"issuer=\"https://issuer.example\" subject=\"otto\"","proposer":"issuer=\"https://issuer.example\" subject=\"olga\""`)
		require.NotContains(t, out.String(), "ch_1")
		require.NotContains(t, out.String(), "p-1")
	})
}
