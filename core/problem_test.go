package core

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// CONTRACT P-1, M-4, M-5, R-4
func TestProblems(t *testing.T) {
	t.Run("problems", func(t *testing.T) {
		codes := map[Code]int{
			"unauthenticated": 401, "forbidden": 403, "key_missing": 400, "key_invalid": 400, "key_in_url": 400,
			"body_too_large": 413, "key_reused": 409, "in_flight": 409, "outcome_unknown": 409, "key_expired": 409, "key_too_old": 409,
			"response_not_replayable": 409, "route_undeclared": 500, "store_unavailable": 503, "commit_unconfirmed": 503,

			"bad_request": 400, "body_unreadable": 400, "operation_not_found": 404, "not_settleable": 409, "answer_too_large": 500,
			"answer_incomplete": 500, "call_unfinished": 500,
			"suspected_duplicate": 409, "too_many_open": 429, "steps_changed": 500, "transaction_aborted": 500, "transaction_unused": 500, "misconfigured": 500, "rolled_back": 503,
		}
		require.Len(t, problemKinds, len(codes), "every code is frozen here")
		titles := map[string]Code{}
		for code, status := range codes {
			p := NewProblem(code, `say "why"`)
			require.Equal(t, status, p.Status, code)
			require.NotEmpty(t, p.Title)
			require.NotContains(t, titles, p.Title, "each has a title of its own")
			titles[p.Title] = code
			require.EqualError(t, p, `idem: `+string(code)+`: say "why"`)

			reply := p.Reply()
			require.Equal(t, status, reply.Status)
			extension := ""
			if code == CodeKeyTooOld {
				extension = `,"safe_new_key":false` // T-6
			}
			require.JSONEq(t, `{"type":"tag:auth19.dev,2026:idem/`+string(code)+`","title":"`+p.Title+`","status":`+
				strconv.Itoa(status)+`,"detail":"say \"why\"","code":"`+string(code)+`"`+extension+`}`, string(reply.Body))
			want := http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"},
				"Idempotency-Problem": {string(code)}}
			if status == 401 {
				want["Www-Authenticate"] = []string{"Bearer"}
			}
			require.Equal(t, want, reply.Header)
		}
	})
	t.Run("problem extensions", func(t *testing.T) {
		p := NewProblem(CodeKeyExpired, "d")
		p.Operation, p.Outcome, p.unknown = "0a", "succeeded", true
		p.Answered = &Answer{Status: 201, Header: http.Header{"Location": {"/1"}}, Body: []byte("secret")}
		reply := p.Reply()
		require.JSONEq(t, `{"type":"tag:auth19.dev,2026:idem/key_expired","title":"Idempotency key expired","status":409,
			"detail":"d","code":"key_expired","operation":"0a","outcome":"succeeded","safe_new_key":false,
			"answer_status":201,"answer_location":"/1"}`, string(reply.Body))
		require.Equal(t, []string{"unknown"}, reply.Header["Idempotency-Result"])

		p.Answered = &Answer{Status: 204}
		encoded, err := json.Marshal(p)
		require.NoError(t, err)
		require.Contains(t, string(encoded), `"answer_status":204}`, "without Location there is none")
	})
	// RFC 9110, section 10.2.3: whole seconds.
	t.Run("retry after is rounded up", func(t *testing.T) {
		for after, want := range map[time.Duration]string{
			0: "", -time.Second: "", 1: "1", time.Second: "1", time.Second + 1: "2", 1500 * time.Millisecond: "2",
			90 * time.Second: "90",
		} {
			p := NewProblem(CodeInFlight, "d")
			p.RetryAfter = after
			require.Equal(t, want, p.Reply().Header.Get("Retry-After"), after)
		}
	})
	t.Run("unknown code is a server error", func(t *testing.T) {
		p := NewProblem("made_up", "d")
		require.Equal(t, http.StatusInternalServerError, p.Status)
		require.NotEmpty(t, p.Title)
	})
}
