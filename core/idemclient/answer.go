package idemclient

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/auth19/idem/core"
)

// answer is a response that was read whole.
type answer struct {
	response   *http.Response
	tooLarge   bool
	recorded   bool // it is the first answer or a replay: the same for good (M-3)
	replayed   bool
	unknown    bool // the command may have been carried out
	retryAfter time.Duration

	code      core.Code // of a problem (P-1)
	operation string
	outcome   string
}

// readAnswer reads a response, at most limit bytes of its body.
func readAnswer(res *http.Response, limit int64) (*answer, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	closed := res.Body.Close()
	if err != nil {
		return nil, err
	}
	a := &answer{response: res, tooLarge: int64(len(body)) > limit, retryAfter: retryAfter(res.Header, time.Now())}
	if a.tooLarge {
		body = body[:limit]
	} else if closed != nil {
		return nil, closed
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	result := res.Header.Get(core.HeaderResult)
	a.unknown = result == core.ResultUnknown
	a.replayed = res.Header.Get(core.HeaderReplayed) == "true"
	a.recorded = a.replayed || result == core.ResultCreated || result == core.ResultReused
	if !a.recorded {
		a.readProblem(body)
	}
	return a, nil
}

// readProblem reads the members of a problem, however the app renders it, as long as it is JSON.
func (a *answer) readProblem(body []byte) {
	media, _, _ := mime.ParseMediaType(a.response.Header.Get("Content-Type"))
	if media != "application/json" && !strings.HasSuffix(media, "+json") {
		return
	}
	var problem struct {
		Code      core.Code `json:"code"`
		Operation string    `json:"operation"`
		Outcome   string    `json:"outcome"`
	}
	if json.Unmarshal(body, &problem) == nil {
		a.code, a.operation, a.outcome = problem.Code, problem.Operation, problem.Outcome
	}
}

// wait is how long the answer asks to wait; 0 where there is none.
func (a *answer) wait() time.Duration {
	if a == nil {
		return 0
	}
	return a.retryAfter
}

// outcome is what an attempt came to.
type outcome struct {
	again  bool  // another attempt may help
	ends   bool  // the intent has a definite answer
	reason error // why the answer is none; nil: it is the caller's
	cause  error
}

// judge decides what becomes of an attempt: C-2, and nothing else does. It notes whether the command may have been
// carried out.
func (k *call) judge(a *answer, failure error) outcome {
	if a == nil {
		if u, ok := failure.(*unsent); ok { //nolint:errorlint // made by attempt, never wrapped
			return outcome{again: u.again, reason: ErrGivenUp, cause: u.error}
		}
		k.uncertain = true
		return outcome{again: true, reason: ErrGivenUp, cause: failure}
	}
	if o, ok := problems[a.code]; ok && a.response.StatusCode == http.StatusConflict {
		k.uncertain = o.uncertain
		return o.outcome
	}
	status := a.response.StatusCode
	switch {
	case a.recorded:
	case status == http.StatusInternalServerError && a.unknown:
		k.uncertain = true
		return outcome{reason: ErrOutcomeUnknown}
	case status == http.StatusTooEarly, status == http.StatusTooManyRequests, a.code == core.CodeStoreUnavailable,
		a.code == core.CodeRolledBack: // nothing was run, or it was undone
		return outcome{again: true}
	case status == http.StatusInternalServerError, status == http.StatusBadGateway,
		status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		k.uncertain = true
		return outcome{again: true}
	}
	o := outcome{ends: true}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout:
		o.ends = a.recorded // else the caller may yet be let in, and repeat it
	}
	if a.tooLarge {
		o.reason = ErrAnswerTooLarge
	}
	k.uncertain = false
	return o
}

// problems are the answers of status 409 that are no answer to the command (M). A recorded 409 has no code here.
var problems = map[core.Code]struct {
	outcome
	uncertain bool
}{
	core.CodeInFlight:              {outcome{again: true, cause: ErrInFlight}, true},
	core.CodeKeyReused:             {outcome{reason: ErrKeyReused}, false},
	core.CodeOutcomeUnknown:        {outcome{reason: ErrOutcomeUnknown}, true},
	core.CodeKeyExpired:            {outcome{reason: ErrKeyExpired, ends: true}, false},
	core.CodeResponseNotReplayable: {outcome{reason: ErrNotReplayable, ends: true}, false},
}
