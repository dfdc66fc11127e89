package idemclient

import (
	"context"
	"net/http"
	"time"

	"github.com/auth19/idem/core"
)

// Try describes one attempt to send a command, for [Config].Observe. It has no key, no token and no body.
type Try struct {
	Intent   string
	Number   int       // 1 is the first of the call
	Status   int       // of the answer; 0 if there was none
	Code     core.Code // of the answer, if it was a problem of the guards
	Replayed bool      // the answer is a recorded one (M-3)
	Err      error     // why there is no complete answer; after the last attempt also why the journal has not recorded the end
	// Retry says that another attempt follows, after Pause.
	Retry bool
	Pause time.Duration
}

// Result says how Do has got an answer.
type Result struct {
	Attempts int  // of this call; 0 if the response does not come from a Client
	Replayed bool // the command had been carried out before, and this is the recorded answer (M-3)
	// Ends says that the answer ends the intent: it is what became of the command, for good. It is false if the command may
	// be accepted another time: with a fresh token after a 401, say. Then keep the intent, and repeat it. With
	// [Config].CallerEnds, end the intent only if Ends is true; without it, the client does that.
	Ends bool
	// Existing is the id of what the command has made, from a 409 that the profile names as final: see Provider.Existing.
	Existing string
}

type resultKey struct{}

// ResultOf returns how a [Client] has got a response.
func ResultOf(res *http.Response) Result {
	if res == nil || res.Request == nil {
		return Result{}
	}
	result, _ := res.Request.Context().Value(resultKey{}).(Result)
	return result
}

// bear makes res the answer to r, with its result.
func (r Result) bear(res *http.Response, request *http.Request) {
	res.Request = request.WithContext(context.WithValue(request.Context(), resultKey{}, r))
	res.Request.Body = nil
}
