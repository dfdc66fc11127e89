package idemclient

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/auth19/idem/core"
)

// answer is a response that was read to its end.
type answer struct {
	response   *http.Response
	body       []byte // of it, at most Config.MaxAnswer bytes
	tooLarge   bool
	followed   bool // it is the answer to another request: the transport has followed a redirect
	definite   bool // it is what became of the command, the same for good (M-3, C-4)
	replayed   bool
	unknown    bool // the command may have been carried out
	retryAfter time.Duration

	code      core.Code // of a problem (P-1)
	operation string
	outcome   string
}

// readAnswer reads a response, at most Config.MaxAnswer bytes of its body.
func (c *Config) readAnswer(res *http.Response) (*answer, error) {
	limit := c.MaxAnswer
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	closed := res.Body.Close()
	if err != nil {
		return nil, err
	}
	a := &answer{response: res, body: body, tooLarge: int64(len(body)) > limit, retryAfter: retryAfter(res.Header, time.Now())}
	if a.tooLarge {
		a.body = body[:limit]
	} else if closed != nil {
		return nil, closed
	}
	res.Body = io.NopCloser(bytes.NewReader(a.body))
	a.followed = res.Request != nil && res.Request.Response != nil
	a.unknown = res.Header.Get(core.HeaderResult) == core.ResultUnknown
	a.replayed = res.Header.Get(core.HeaderReplayed) == "true"
	a.definite = c.Provider.definite(res.StatusCode, res.Header)
	if !a.definite {
		a.readProblem()
	}
	return a, nil
}

// readProblem reads the members of a problem. The app may render it in its own way, as JSON.
func (a *answer) readProblem() {
	if !isJSON(a.response.Header) {
		return
	}
	var problem struct {
		Code      core.Code `json:"code"`
		Operation string    `json:"operation"`
		Outcome   string    `json:"outcome"`
	}
	if json.Unmarshal(a.body, &problem) == nil {
		a.code, a.operation, a.outcome = problem.Code, problem.Operation, problem.Outcome
	}
}

// wait is how long the answer asks the client to wait; 0 if it does not.
func (a *answer) wait() time.Duration {
	if a == nil {
		return 0
	}
	return a.retryAfter
}

// outcome is the result of an attempt.
type outcome struct {
	again  bool  // another attempt may help
	ends   bool  // the intent has a definite answer
	reason error // why the caller does not get the answer; nil if the caller gets it
	cause  error
}

// judge alone decides what follows from an attempt (C-2, C-4). It also records whether the command may have been carried
// out. Only a definite answer ends this uncertainty.
func (k *call) judge(a *answer, failure error) outcome {
	switch {
	case a == nil:
		return k.judgeFailure(failure)
	case a.followed:
		k.uncertain = true
		return outcome{reason: ErrRedirected}
	case a.definite:
		return k.end(a)
	}
	status := a.response.StatusCode
	k.uncertain = k.uncertain || a.unknown
	// Where the outcome is unknown, a handler may have passed on the problem of another service.
	if p, ok := problems[a.code]; ok && status == http.StatusConflict && (p.uncertain || !a.unknown) {
		k.uncertain = (k.uncertain || p.uncertain) && !p.ends
		return p.outcome
	}
	switch {
	case status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return outcome{again: true}
	case a.unknown && status <= http.StatusInternalServerError:
		return outcome{reason: ErrOutcomeUnknown}
	case a.code == core.CodeStoreUnavailable, a.code == core.CodeRolledBack: // nothing was run, or it was undone
		return outcome{again: true}
	case status >= http.StatusInternalServerError: // also the statuses that proxies invent, up to 599
		k.uncertain = true
		return outcome{again: true}
	case k.uncertain: // the answer concerns only this attempt, or comes from a proxy
		return outcome{reason: ErrStillUncertain}
	}
	return k.end(a)
}

// judgeFailure judges an attempt without an answer.
func (k *call) judgeFailure(failure error) outcome {
	if u, ok := failure.(*unsent); ok { //nolint:errorlint // made by attempt, never wrapped
		return outcome{again: u.again, reason: ErrGivenUp, cause: u.error}
	}
	k.uncertain = true
	return outcome{again: true, reason: ErrGivenUp, cause: failure}
}

// end is the outcome of an attempt whose answer the caller gets.
func (k *call) end(a *answer) outcome {
	k.uncertain = false
	o := outcome{ends: a.definite || !mayBeLetIn(a.response.StatusCode)}
	if a.tooLarge {
		o.reason = ErrAnswerTooLarge
	}
	return o
}

// mayBeLetIn reports whether the command was refused before the server looked at it. With another token, or at the
// address of a redirect, it may be accepted, so the intent does not end.
func mayBeLetIn(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout:
		return true
	}
	return status >= 300 && status < 400
}

// problems are the codes of a 409 that is not an answer to the command (M).
var problems = map[core.Code]struct {
	outcome
	uncertain bool
}{
	core.CodeInFlight:              {outcome{again: true, cause: ErrInFlight}, true},
	core.CodeKeyReused:             {outcome{reason: ErrKeyReused}, false},
	core.CodeOutcomeUnknown:        {outcome{reason: ErrOutcomeUnknown}, true},
	core.CodeKeyExpired:            {outcome{reason: ErrKeyExpired, ends: true}, false},
	core.CodeResponseNotReplayable: {outcome{reason: ErrNotReplayable, ends: true}, false},
	core.CodeKeyTooOld:             {outcome{reason: ErrKeyTooOld}, false},
}
