package idemclient

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core"
)

// Why a command was not sent. Compare with [errors.Is]; the error is an [*Error] with no attempts. It is Uncertain if an
// earlier call may have sent the command, and also where that could not be found out.
var (
	// ErrSameCall: a guarded handler makes two calls of the same name in one attempt (C-3).
	ErrSameCall = errors.New("idem: the handler has made a call of this name before in this attempt; give each its own name")
	// ErrNotCommitted: the handler has planned the intent in a transaction that has not committed or was rolled back. Send
	// the command after COMMIT.
	ErrNotCommitted = errors.New("idem: the intent was planned in a transaction that has not committed; send it after COMMIT")
	// ErrEnded: with Config.CallerEnds, a caller has ended the intent before: the outcome is in its rows. It is not sent
	// again, because a server that has refused it may have freed its key, and would carry it out now. In a handler it means
	// that the command is finished, not that it was refused. It is Uncertain: if the rows say that it was refused, and an
	// answer to you was lost, that sending may have been carried out afterwards. Ask with [Client.Lookup].
	ErrEnded = errors.New("idem: the intent has ended; its outcome is in the rows of the caller that has ended it")
	// ErrNotRewindable: the request's body could be sent only once. Give the request a GetBody, as http.NewRequest does for
	// bytes.Reader, bytes.Buffer and strings.Reader, or set Config.MaxBuffer.
	ErrNotRewindable = errors.New("idem: the body cannot be rewound for a second attempt: the request has no GetBody")
	// ErrOtherKey: the request already has a key, and it is not the key of its intent.
	ErrOtherKey = errors.New("idem: the request has another key than its intent; leave it to the client")
	// ErrTooOld: the intent was first sent so long ago that the provider may have forgotten its key. A repeat could be
	// carried out as a second command. Ask the provider about the intent.
	ErrTooOld = errors.New("idem: the intent is older than its key lives at the provider; ask there what became of it")
)

// Why a command that was sent has no answer. Compare with [errors.Is]; the error is an [*Error].
var (
	// ErrGivenUp: attempts or time are used up, the caller's context has ended, or Retry-After asks for too long a wait.
	// Repeat the same intent later. If the last answer was in_flight, the error is ErrInFlight, too.
	ErrGivenUp = errors.New("idem: given up")
	// ErrInFlight: the first request with this key is still running (M-2).
	ErrInFlight = errors.New("idem: the first request with this key is still running")
	// ErrKeyReused: the key or the intent belongs to another command (M-1). If Attempts is 0, nothing was sent.
	ErrKeyReused = errors.New("idem: the intent was used for another command; a new command is a new intent")
	// ErrOutcomeUnknown: the command may have been carried out, and nobody can say (M-4). Ask for the operation. One that is
	// still running has answered before it was done: repeat the same intent.
	ErrOutcomeUnknown = errors.New("idem: the command may have been carried out; ask for the operation, and do not send it " +
		"again as a new intent")
	// ErrStillUncertain: the command may have been carried out, and the answer does not tell: a login page, a 4xx of a
	// firewall, a 2xx that Provider.Definite denies, an expired token after an attempt without an answer, a 409 of a
	// provider. Correct what the answer and the Cause say, and repeat the same intent (C-4, C-7).
	ErrStillUncertain = errors.New("idem: the command may have been carried out, and this answer does not tell; " +
		"repeat the same intent")
	// ErrRedirected: an http.Client around this one, or below it as Config.Transport, has followed a redirect of a command's
	// answer. Set its CheckRedirect to return [http.ErrUseLastResponse]. The error is Uncertain: the command was sent, and
	// may have been carried out before the redirect. If Config.Transport has followed it, a request was sent there, too.
	ErrRedirected = errors.New("idem: the answer to a money command is a redirect, which must not be followed")
	// ErrKeyTooOld: the server accepts no keys of this age. It has not carried the command out in this attempt, and never
	// will with this key. Uncertain says whether an earlier attempt may have (T-6).
	ErrKeyTooOld = errors.New("idem: the key is too old for the server; ask it what became of the intent")
	// ErrKeyExpired: the command was carried out so long ago that its answer is gone (M-5).
	ErrKeyExpired = errors.New("idem: the command was carried out long ago; its answer is gone")
	// ErrNotReplayable: the command was carried out; its answer was too large to be kept.
	ErrNotReplayable = errors.New("idem: the command was carried out; its answer cannot be sent again")
	// ErrAnswerTooLarge: there is an answer, but its body is above Config.MaxAnswer. Error.Status has its status.
	ErrAnswerTooLarge = errors.New("idem: the answer is larger than Config.MaxAnswer")
)

// The causes of ErrStillUncertain.
var (
	errUnmarked = errors.New("idem: the answer has neither Idempotency-Result nor Idempotency-Problem, so that the guards " +
		"have not made it; for a route without guards, or a server without this library, set Provider.Definite")
	errDenied = errors.New("idem: the answer has the status of a success, and Provider.Definite says that it is not the " +
		"command's own")
	errConflict          = errors.New("idem: the command in the way may be an earlier attempt")
	errSwitched          = errors.New("idem: the server has switched protocols instead of answering")
	errRenderedAsSuccess = errors.New("idem: a problem of the guards has the status of a success; correct the server's " +
		"Config.RenderProblem")
)

// Error says why there is no answer.
type Error struct {
	Intent   string
	Reason   error // one of this package's errors, or what is wrong with the request; nil if the journal failed
	Cause    error // the error behind it, the last error of the network for instance; may be nil
	Attempts int   // how many were begun; 0: nothing was sent

	// Uncertain says that the command may have been carried out: in this call, in an earlier one of the intent, or in an
	// earlier attempt of the handler. Then repeat the same intent, and never use another intent for the same command. It is
	// also set if the call has ended before the client knew: the context had ended, the journal did not answer.
	Uncertain bool

	Status    int       // of the last answer; 0 if there was none
	Code      core.Code // of the last answer, if it was a problem of the guards
	Operation string    // the operation that the last answer named, to ask the server about; "" if none
	Outcome   string    // with ErrKeyExpired: how the command ended, "succeeded" or "refused" (M-5)
	// RetryAfter is how long the last answer asked the client to wait.
	RetryAfter time.Duration
	// Response is the last answer, with its body in memory; nil if there was none.
	Response *http.Response
}

// Error implements error. The text has no key, no token and no body. What a server has sent is in it only as far as it has
// the form of a code or an id; Cause is cut off after some hundred bytes, and what cannot be printed is escaped (C-7).
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "idem: intent %q: ", e.Intent)
	switch {
	case e.Reason != nil:
		b.WriteString(plain(e.Reason))
	case e.Cause != nil:
		b.WriteString(told(e.Cause))
	}
	if e.Attempts == 0 {
		b.WriteString("; nothing was sent")
	} else {
		fmt.Fprintf(&b, "; attempts: %d", e.Attempts)
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, "; last answer: %d", e.Status)
	}
	if e.Code != "" {
		fmt.Fprintf(&b, " %s", e.Code)
	}
	if e.Operation != "" {
		fmt.Fprintf(&b, "; operation: %s", e.Operation)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; it asks to wait for %v", e.RetryAfter)
	}
	if e.Reason != nil && e.Cause != nil {
		fmt.Fprintf(&b, ": %s", told(e.Cause))
	}
	//nolint:errorlint // the field, not what it wraps
	if e.Uncertain && (e.Reason == ErrGivenUp || e.Reason == ErrStillUncertain) {
		b.WriteString("; the money may have moved: repeat the same intent, never a new one")
	}
	return b.String()
}

// plain is an error without the prefix that all errors of this library have.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "idem: ") }

// told is the text of an error that may quote what a server has sent.
func told(err error) string {
	const most = 500
	text := plain(err)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Unwrap makes [errors.Is] and [errors.As] see the reason and the cause.
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 2)
	for _, err := range []error{e.Reason, e.Cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
