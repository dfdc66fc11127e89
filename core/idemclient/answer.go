package idemclient

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
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
	notApplied bool // a handler has refused the command, and nothing was carried out
	existing   string
	retryAfter time.Duration

	code      core.Code // of a problem of the guards (P-1); "" if anybody else may have made the answer
	operation string
	outcome   string
}

// readAnswer reads a response, at most Config.MaxAnswer bytes of its body.
func (c *Config) readAnswer(res *http.Response) (*answer, error) {
	if res.StatusCode == http.StatusSwitchingProtocols { // net/http hands the connection over, and does not end it
		err := res.Body.Close()
		res.Body = http.NoBody
		return &answer{response: res}, err
	}
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
	result := only(res.Header, wire.HeaderResult)
	a.unknown, a.notApplied = result == wire.ResultUnknown, result == wire.ResultNotApplied
	a.replayed = res.Header.Get(wire.HeaderReplayed) == "true"
	a.definite = c.Provider.definite(res.StatusCode, res.Header)
	if !a.definite {
		a.readProblem()
		a.existing = c.Provider.existing(res, a.body)
		a.definite = a.existing != ""
	}
	return a, nil
}

// readProblem reads a problem. The code is that of the header, which handlers cannot send: a code in a body may be another
// service's, passed on by a handler that has carried the command out (C-7). The other members are only for people, and are
// taken if they have their form: they get into the text of errors. The app may render them in its own way, as JSON.
func (a *answer) readProblem() {
	code := only(a.response.Header, wire.HeaderProblem)
	if !isCode(code) {
		return
	}
	a.code = core.Code(code)
	if !isJSON(a.response.Header) {
		return
	}
	var problem struct {
		Operation string `json:"operation"`
		Outcome   string `json:"outcome"`
	}
	if json.Unmarshal(a.body, &problem) != nil {
		return
	}
	if _, err := store.ParseID(problem.Operation); err == nil {
		a.operation = problem.Operation
	}
	if isCode(problem.Outcome) {
		a.outcome = problem.Outcome
	}
}

// only returns the value of a header that has one line; "" if there are more, because then one of them is not the server's.
func only(header http.Header, name string) string {
	if values := header[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// isCode reports whether s has the form of a code: lower-case letters, digits and underscores, at most 64.
func isCode(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
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
	earlier := a.replayed || !k.client.cfg.Direct // an earlier delivery may have done what this answer asks to repeat (C-8)
	if p, ok := problems[a.code]; ok {
		k.uncertain = (k.uncertain || p.uncertain || p.again && earlier) && !p.ends
		return p.outcome
	}
	switch {
	case status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		k.uncertain = k.uncertain || earlier || k.doubt(a) != nil
		return outcome{again: true}
	case a.unknown && (status < http.StatusInternalServerError || a.response.Header.Get("Retry-After") == ""):
		return outcome{reason: ErrOutcomeUnknown} // with Retry-After a repeat continues the operation
	case status >= http.StatusInternalServerError: // also the statuses that proxies invent, up to 599
		k.uncertain = true
		return outcome{again: true}
	}
	if doubt := k.doubt(a); k.uncertain || doubt != nil { // the answer concerns only this attempt, or comes from a proxy
		k.uncertain = true
		return outcome{reason: ErrStillUncertain, cause: doubt}
	}
	return k.end(a)
}

// doubt says why an answer that is not definite may not even say what this attempt has done; nil if it does (C-7).
func (k *call) doubt(a *answer) error {
	status := a.response.StatusCode
	switch {
	case status == http.StatusSwitchingProtocols:
		return errSwitched
	case a.notApplied:
		return nil
	case a.code != "":
		if status < http.StatusBadRequest {
			return errRenderedAsSuccess
		}
		return nil
	case k.client.cfg.Provider.Definite == nil:
		return errUnmarked
	case status < http.StatusMultipleChoices:
		return errDenied
	case status == http.StatusConflict:
		return errConflict
	}
	return nil
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

// mayBeLetIn reports whether the command may be accepted another time: with another token, at the address of a redirect,
// or when what is in its way is over. So the intent does not end.
func mayBeLetIn(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusConflict:
		return true
	}
	return status >= 300 && status < 400
}

// problems are the codes that say what becomes of the attempt, whatever the status (M, F).
var problems = map[core.Code]struct {
	outcome
	uncertain bool
}{
	core.CodeInFlight:              {outcome{again: true, cause: ErrInFlight}, true},
	core.CodeCommitUnconfirmed:     {outcome{again: true}, true},
	core.CodeKeyReused:             {outcome{reason: ErrKeyReused}, false},
	core.CodeOutcomeUnknown:        {outcome{reason: ErrOutcomeUnknown}, true},
	core.CodeKeyExpired:            {outcome{reason: ErrKeyExpired, ends: true}, false},
	core.CodeResponseNotReplayable: {outcome{reason: ErrNotReplayable, ends: true}, false},
	core.CodeKeyTooOld:             {outcome{reason: ErrKeyTooOld}, false},
	// Nothing was run, or it was undone.
	core.CodeStoreUnavailable: {outcome{again: true}, false},
	core.CodeRolledBack:       {outcome{again: true}, false},
	core.CodeTooManyOpen:      {outcome{again: true}, false},
	core.CodeBodyUnreadable:   {outcome{again: true}, false}, // it was lost on its way
}
