package idemclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
)

// CONTRACT C-7
func TestMarks(t *testing.T) {
	// Stripe replays a 500 after which the charge exists. If the intent ended, the next one would charge again.
	t.Run("no profile makes a failure definite", func(t *testing.T) {
		everything := idemclient.Standard()
		everything.Definite = func(int, http.Header) bool { return true }
		for name, p := range map[string]idemclient.Provider{
			"everything": everything, "Standard": idemclient.Standard(), "Stripe": idemclient.Stripe(), "Adyen": idemclient.Adyen(),
			"PayPal": idemclient.PayPal(), "CheckoutCom": idemclient.CheckoutCom(),
		} {
			for _, status := range []int{409, 425, 429, 500, 501, 502, 503, 504, 520, 599} {
				for _, lines := range [][]string{nil, {"Idempotent-Replayed: true"}} {
					for _, before := range [][]func(*http.Request) (*http.Response, error){nil, {breaks(errReset)}} {
						ended, res, err := answered(t, p, append(before, says(status, lines...)))
						e := failed(t)(res, err)
						require.False(t, ended, "%s, %d: %v", name, status, e)
						if status != http.StatusTooEarly && status != http.StatusTooManyRequests || len(before) > 0 {
							require.True(t, e.Uncertain, "%s, %d: %v", name, status, e)
						}
					}
				}
				requireEnds(t, p, breaks(errReset), says(status, created))
			}
		}
	})
	// A problem that a handler passes on from another service says nothing about the handler's own command: it may have
	// charged before.
	t.Run("codes need a header that handlers cannot send", func(t *testing.T) {
		for _, code := range []core.Code{
			core.CodeInFlight, core.CodeKeyReused, core.CodeOutcomeUnknown, core.CodeKeyExpired, core.CodeKeyTooOld,
			core.CodeResponseNotReplayable, core.CodeSuspectedDuplicate, core.CodeStoreUnavailable, core.CodeRolledBack,
			core.CodeTooManyOpen, core.CodeForbidden, core.CodeKeyInvalid,
		} {
			for _, extra := range []string{"X-Other: 1", "Idempotency-Problem: no code", "Idempotency-Problem: " + strings.Repeat("x", 65)} {
				ended, res, err := answered(t, idemclient.Standard(), []func(*http.Request) (*http.Response, error){relayed(code, extra)})
				e := failed(t)(res, err)
				require.True(t, e.Uncertain, "%s: %v", code, e)
				require.Empty(t, e.Code, code)
				require.Empty(t, e.Operation, code)
				require.False(t, ended, code)
			}
		}
		// Two lines: one of them is not the server's.
		twice := []func(*http.Request) (*http.Response, error){says(201, created, "Idempotency-Result: unknown")}
		ended, res, err := answered(t, idemclient.Standard(), twice)
		require.ErrorIs(t, failed(t)(res, err), idemclient.ErrStillUncertain)
		require.False(t, ended)
	})
	// A firewall's page, nginx with "error_page 504 =200", a queueing proxy's 202: none of them comes from the guards, and
	// the command may have been carried out. This holds for the first attempt, too.
	t.Run("answers that the guards have not made", func(t *testing.T) {
		for _, status := range []int{200, 201, 202, 204, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 410, 413, 422, 431, 451} {
			requireUncertain(t, idemclient.Standard(), idemclient.ErrStillUncertain, says(status))
			requireUncertain(t, idemclient.Standard(), idemclient.ErrStillUncertain, says(status, "Idempotency-Key: k", "Idempotent-Replayed: true"))
			requireUncertain(t, idemclient.Standard(), idemclient.ErrStillUncertain, says(status, "Idempotency-Result: something"))

			// Routes without guards, and servers without this library.
			ended, res, err := answered(t, unguarded(), []func(*http.Request) (*http.Response, error){says(status)})
			require.NoError(t, err)
			require.Equal(t, status, res.StatusCode)
			stays := status >= 300 && status < 400 || status == 401 || status == 403 || status == 407 || status == 408
			require.Equal(t, !stays, ended, status)
		}
		_, _, err := answered(t, idemclient.Standard(), []func(*http.Request) (*http.Response, error){says(202, "", "queued")})
		require.ErrorContains(t, err, "set Provider.Definite")
		require.ErrorContains(t, err, "the money may have moved: repeat the same intent, never a new one")
		e, _ := errors.AsType[*idemclient.Error](err)
		require.Equal(t, "queued", text(t, e.Response))

		// Nor is a success an answer that the provider's profile denies.
		only201 := idemclient.Standard()
		only201.Definite = func(status int, _ http.Header) bool { return status == http.StatusCreated }
		for _, status := range []int{200, 202, 204} {
			requireUncertain(t, only201, idemclient.ErrStillUncertain, says(status))
		}
		requireEnds(t, only201, says(201))
		requireEnds(t, only201, says(404))

		// An app that gives its problems the status of a success must not be believed.
		requireUncertain(t, idemclient.Standard(), idemclient.ErrStillUncertain, says(200, "Idempotency-Problem: body_too_large"))
	})
}

// The same with a real server: the handler charges, and then passes on the problem of the next service, with all headers
// that it had, spelled as it likes.
//
// CONTRACT C-7, X-3
func TestAHandlerThatPassesAProblemOn(t *testing.T) {
	for _, code := range []core.Code{core.CodeRolledBack, core.CodeStoreUnavailable} {
		charges := 0
		b := newBank(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
			err := core.CallDo(r.Context(), "charge", func(context.Context, core.DerivedKey) error { charges++; return nil },
				core.Dedup(time.Hour))
			if err != nil {
				t.Error(err)
			}
			w.Header()["idempotency-problem"] = []string{string(code)}
			w.Header()["idempotency-result"] = []string{"created"}
			if err := core.NewProblem(code, "a detail").Reply().WriteTo(w); err != nil {
				t.Error(err)
			}
		})
		journal := intents.NewMemoryJournal()
		client := newClient(t, idemclient.Config{
			Transport: ownTransport(t), Journal: journal, FirstPause: time.Millisecond, MaxAttempts: 2,
		})
		require.True(t, failed(t)(client.Do(t.Context(), "order-7", payment(t, b.URL+"/v1/payments"))).Uncertain, "%s: the charge is made", code)
		require.Equal(t, 1, charges)
		require.False(t, hasEnded(t, journal))
	}
}

// CONTRACT C-7
func TestErrorsQuoteAndCapWhatTheServerHasSent(t *testing.T) {
	evil := strings.Repeat("\x1b[2J\r\nlevel=info paid ", 50_000)
	quoted := strings.NewReplacer("\x1b", `\u001b`, "\r", `\r`, "\n", `\n`).Replace(evil)
	body := fmt.Sprintf(`{"code":"%s","operation":"%s","outcome":"%s"}`, quoted, quoted, quoted)
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"members": says(409, "Content-Type: application/json", "Idempotency-Problem: key_expired", "", body),
		"codes":   says(409, "Content-Type: application/json", "Idempotency-Problem: "+evil, "", body),
		"no mark": says(404, "Content-Type: application/json", "", body),
		"cause":   breaks(fmt.Errorf("malformed HTTP response %s", evil)),
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, idemclient.Config{Transport: on(answer), MaxAttempts: 1})
			e := failed(t)(pay(t, client, "order-7"))
			require.Less(t, len(e.Error()), 1000)
			require.NotContains(t, e.Error(), "\x1b")
			require.NotContains(t, e.Error(), "\n")
			require.Empty(t, e.Operation)
			require.Empty(t, e.Outcome)
			require.LessOrEqual(t, len(e.Code), 64)

			_, err := client.LookupKey(t.Context(), "k-1", address)
			require.Less(t, len(err.Error()), 1000)
			require.NotContains(t, err.Error(), "\x1b")
		})
	}
	client := newClient(t, idemclient.Config{MaxAttempts: 1, Transport: on(breaks(errors.New(`idem: "quoted" as it is`)))})
	_, err := pay(t, client, "order-7")
	require.ErrorContains(t, err, `: "quoted" as it is`)
}

// A provider answers a repeat with 409 and the id of what exists. A profile that names this answer ends the intent; one that
// does not never does.
//
// CONTRACT C-7, C-8
func TestAConflictWithTheIDOfWhatExists(t *testing.T) {
	named := unguarded()
	named.Existing = func(_ http.Header, body []byte) string {
		var conflict struct {
			Existing string `json:"existing_payment"`
		}
		_ = json.Unmarshal(body, &conflict)
		return conflict.Existing
	}
	const exists = `{"error":"duplicate","existing_payment":"pay_7"}`
	cut := breaks(errReset)
	for _, before := range [][]func(*http.Request) (*http.Response, error){nil, {cut}} {
		synctest.Test(t, func(t *testing.T) {
			journal := intents.NewMemoryJournal()
			client := newClient(t, idemclient.Config{Transport: on(append(before, says(409, "", exists))...), Journal: journal, Provider: named})
			res := succeeded(t)(pay(t, client, "order-7"))
			require.Equal(t, 409, res.StatusCode)
			require.Equal(t, "pay_7", idemclient.ResultOf(res).Existing)
			require.True(t, idemclient.ResultOf(res).Ends)
			require.True(t, hasEnded(t, journal))
		})
	}
	requireUncertain(t, unguarded(), idemclient.ErrStillUncertain, cut, says(409, "", exists))
	requireUncertain(t, named, idemclient.ErrStillUncertain, cut, says(409, "", `{"error":"busy"}`))
	for _, status := range []int{400, 404, 422} { // it is asked about a 409 alone
		requireUncertain(t, named, idemclient.ErrStillUncertain, cut, says(status, "", exists))
	}
	for _, status := range []int{425, 429, 500, 503} {
		ended, res, err := answered(t, named, of(cut, says(status, "", exists)))
		require.True(t, failed(t)(res, err).Uncertain, status)
		require.False(t, ended)
	}
	// What this library says of itself comes first, whatever stands in the body.
	for _, mark := range []string{"Idempotency-Result: unknown", "Idempotency-Problem: outcome_unknown"} {
		requireUncertain(t, named, idemclient.ErrOutcomeUnknown, cut, says(409, mark, "", exists))
	}
}
