package core

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// Code names a kind of problem. It is stable: clients may switch on it (contract P-1).
type Code string

// The codes of contract P-1. Those after the empty line are for situations for which the contract names only a status.
const (
	CodeUnauthenticated       Code = "unauthenticated"         // 401: no verified principal
	CodeForbidden             Code = "forbidden"               // 403: the principal may not do this, or not any more
	CodeKeyMissing            Code = "key_missing"             // 400: no key
	CodeKeyInvalid            Code = "key_invalid"             // 400: not one valid key
	CodeKeyInURL              Code = "key_in_url"              // 400: the key belongs in the header
	CodeBodyTooLarge          Code = "body_too_large"          // 413: the request body is above the cap
	CodeKeyReused             Code = "key_reused"              // 409, or 422 in [IETF]: the key belongs to another command
	CodeInFlight              Code = "in_flight"               // 409: the first attempt is still running; retry
	CodeOutcomeUnknown        Code = "outcome_unknown"         // 409: may have been applied; ask for the operation
	CodeKeyExpired            Code = "key_expired"             // 409: it has run; its answer is no longer kept
	CodeKeyTooOld             Code = "key_too_old"             // 409: a timed key that is too old for a first request
	CodeResponseNotReplayable Code = "response_not_replayable" // 409: it has run; its answer is not kept, or cannot be read
	CodeRouteUndeclared       Code = "route_undeclared"        // 500: the route is not in the table
	CodeStoreUnavailable      Code = "store_unavailable"       // 503: nothing was run; retry
	CodeCommitUnconfirmed     Code = "commit_unconfirmed"      // 503: may have been applied; retry with the same key

	CodeBadRequest         Code = "bad_request"         // 400: a request to an operation handler is malformed
	CodeBodyUnreadable     Code = "body_unreadable"     // 400: the request body broke off; retry
	CodeNotFound           Code = "operation_not_found" // 404: no such operation of this principal
	CodeNotSettleable      Code = "not_settleable"      // 409: only unknown operations can be settled, once
	CodeSuspectedDuplicate Code = "suspected_duplicate" // 409: the same command came with another key; see RefuseRekeyed
	CodeTooManyOpen        Code = "too_many_open"       // 429: too many commands of the principal are open; retry. See MaxOpen
	CodeAnswerIncomplete   Code = "answer_incomplete"   // 500: a part of the handler's answer is missing; not recorded
	CodeCallUnfinished     Code = "call_unfinished"     // 500: a success although a call is unfinished; not recorded
	CodeAnswerTooLarge     Code = "answer_too_large"    // 500: rolled back, the answer was above the cap
	CodeStepsChanged       Code = "steps_changed"       // 500: a Resume handler took other steps than before
	CodeTransactionAborted Code = "transaction_aborted" // 500: rolled back, a statement of the handler had failed
	CodeTransactionUnused  Code = "transaction_unused"  // 500: rolled back, a success without a write; see UnwrittenRefused
	CodeMisconfigured      Code = "misconfigured"       // 500: the guards of this route are mounted wrongly
	CodeRolledBack         Code = "rolled_back"         // 503: rolled back after a conflict or at the deadline; retry
)

// defaultProblemBase is Config.ProblemBase: a stable name, not an address.
const defaultProblemBase = "tag:auth19.dev,2026:idem/"

// problemType is the media type of a problem.
const problemType = "application/problem+json"

// Problem is an RFC 9457 problem (contract P-1). It is also an error.
type Problem struct {
	Code      Code
	Type      string // the URI of the kind of problem: Config.ProblemBase and the code
	Status    int    // of HTTP
	Title     string // the same for every problem of the code
	Detail    string // for people; never holds keys, tokens, bodies or another principal's data
	Operation string // operation id in hex, if there is one

	// RetryAfter is sent in whole seconds, rounded up. With 0 there is no Retry-After, because a repeat would not help.
	RetryAfter time.Duration
	// Outcome is the outcome class, for key_expired: "succeeded" or "refused" (M-5).
	Outcome string
	// Answered is what is still known of an answer that cannot be replayed: status and Location.
	Answered *Answer
	// unknown marks that the command may have been applied.
	unknown bool
}

// Error implements error: "idem: ", the code and the detail.
func (p *Problem) Error() string { return "idem: " + string(p.Code) + ": " + p.Detail }

// wiring returns the detail as an error for the observer, if the app has mounted its routes or guards wrongly; else nil.
// The app's team must correct that. Without the event only the client would learn of it.
func (p *Problem) wiring() error {
	if p.Code == CodeMisconfigured || p.Code == CodeRouteUndeclared {
		return errors.New("idem: " + p.Detail)
	}
	return nil
}

// problemKind has what all problems of a code share.
type problemKind struct {
	status int
	title  string
	again  bool // it is sent with Retry-After: repeating with the same key helps
	// on reports whether requests to a guarded route may get the problem. It is nil if no guarded route sends it: only the
	// handlers of operations do, or the route is not in the table.
	on func(m *Module, r *route) bool
}

var problemKinds = map[Code]problemKind{
	CodeUnauthenticated:       {http.StatusUnauthorized, "Authentication required", false, every},
	CodeForbidden:             {http.StatusForbidden, "Not allowed", false, withRights},
	CodeKeyMissing:            {http.StatusBadRequest, "Idempotency key required", false, every},
	CodeKeyInvalid:            {http.StatusBadRequest, "Idempotency key invalid", false, every},
	CodeKeyInURL:              {http.StatusBadRequest, "Idempotency key in the URL", false, every},
	CodeBodyTooLarge:          {http.StatusRequestEntityTooLarge, "Request body too large", false, every},
	CodeKeyReused:             {http.StatusConflict, "Idempotency key used for another command", false, every},
	CodeInFlight:              {http.StatusConflict, "First request still running", true, every},
	CodeOutcomeUnknown:        {http.StatusConflict, "Outcome unknown", false, every},
	CodeKeyExpired:            {http.StatusConflict, "Idempotency key expired", false, every},
	CodeKeyTooOld:             {http.StatusConflict, "Idempotency key too old", false, withKeyTimes},
	CodeResponseNotReplayable: {http.StatusConflict, "Answer cannot be replayed", false, every},
	CodeRouteUndeclared:       {http.StatusInternalServerError, "Route not declared", false, nil},
	CodeStoreUnavailable:      {http.StatusServiceUnavailable, "Idempotency store unavailable", true, every},
	CodeCommitUnconfirmed:     {http.StatusServiceUnavailable, "Outcome not confirmed yet", true, every},
	CodeBadRequest:            {http.StatusBadRequest, "Malformed request", false, nil},
	CodeBodyUnreadable:        {http.StatusBadRequest, "Request body unreadable", true, every},
	CodeNotFound:              {http.StatusNotFound, "No such operation", false, nil},
	CodeNotSettleable:         {http.StatusConflict, "Operation cannot be settled", false, nil},
	CodeSuspectedDuplicate:    {http.StatusConflict, "Suspected duplicate", false, withRefuseRekeyed},
	CodeTooManyOpen:           {http.StatusTooManyRequests, "Too many open operations", true, withMaxOpen},
	CodeAnswerIncomplete:      {http.StatusInternalServerError, "Answer incomplete", false, every},
	CodeCallUnfinished:        {http.StatusInternalServerError, "Call unfinished", true, withResume},
	CodeAnswerTooLarge:        {http.StatusInternalServerError, "Answer too large", false, withRollback},
	CodeStepsChanged:          {http.StatusInternalServerError, "Steps changed", false, withResume},
	CodeTransactionAborted:    {http.StatusInternalServerError, "Transaction aborted", false, withTransaction},
	CodeTransactionUnused:     {http.StatusInternalServerError, "Transaction unused", false, withUnwrittenRefused},
	CodeMisconfigured:         {http.StatusInternalServerError, "Guards mounted wrongly", false, every},
	CodeRolledBack:            {http.StatusServiceUnavailable, "Rolled back, not applied", true, withTransaction},
}

// The routes whose requests may get a problem. A record may be older than the policy of its route. So a problem that
// comes from a record, an unknown outcome for instance, can come on every route.
func every(*Module, *route) bool                 { return true }
func withRights(_ *Module, r *route) bool        { return len(r.Roles) > 0 || r.Review != nil }
func withRollback(_ *Module, r *route) bool      { return r.Recovery == Rollback }
func withTransaction(_ *Module, r *route) bool   { return r.Recovery != Park }
func withResume(_ *Module, r *route) bool        { return r.Recovery == Resume }
func withRefuseRekeyed(_ *Module, r *route) bool { return r.RefuseRekeyed }
func withUnwrittenRefused(_ *Module, r *route) bool {
	return r.Recovery == Rollback && r.Unwritten == UnwrittenRefused
}
func withMaxOpen(_ *Module, r *route) bool { return r.MaxOpen > 0 }

// withKeyTimes: a store of timed keys also judges keys of other formats, after keys were refused for instance.
func withKeyTimes(m *Module, _ *route) bool {
	_, ok := m.cfg.Store.(store.Settings)
	return ok
}

// NewProblem returns the problem of a code with its status and title in [AUTH19]. An unknown code is a 500.
func NewProblem(code Code, detail string) *Problem {
	kind := AUTH19.kind(code)
	return &Problem{Code: code, Type: defaultProblemBase + string(code), Status: kind.status, Title: kind.title, Detail: detail}
}

// checkProblemBase says what is wrong with Config.ProblemBase.
func checkProblemBase(base string) error {
	parsed, err := url.Parse(base + "code")
	switch {
	case err != nil || !parsed.IsAbs() || strings.HasPrefix(parsed.Scheme, "http") && parsed.Host == "":
		return fmt.Errorf("%q is not an absolute URI, such as https://shop.example/problems/", base)
	case !strings.HasSuffix(base, "/") && !strings.HasSuffix(base, "#") && !strings.HasSuffix(base, ":"):
		return fmt.Errorf("%q must end with a slash, a number sign or a colon: the code follows", base)
	case parsed.User != nil || parsed.RawQuery != "":
		return fmt.Errorf("%q must have neither a user nor a query", base)
	}
	return nil
}

// problemBody is the JSON form of a problem.
type problemBody struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Code       Code   `json:"code"`
	Operation  string `json:"operation,omitempty"`
	Outcome    string `json:"outcome,omitempty"`
	SafeNewKey *bool  `json:"safe_new_key,omitempty"`

	AnswerStatus   int    `json:"answer_status,omitempty"`
	AnswerLocation string `json:"answer_location,omitempty"`
}

// MarshalJSON implements [json.Marshaler] with the members of RFC 9457, section 3, and the extensions code,
// operation, outcome, safe_new_key, answer_status and answer_location.
func (p *Problem) MarshalJSON() ([]byte, error) {
	body := problemBody{
		Type: cmp.Or(p.Type, defaultProblemBase+string(p.Code)), Title: p.Title, Status: p.Status, Detail: p.Detail, Code: p.Code,
		Operation: p.Operation, Outcome: p.Outcome,
	}
	if p.unknown || p.Code == CodeKeyTooOld {
		body.SafeNewKey = new(false) // a new key may run the command a second time (M-4, T-6)
	}
	if p.Answered != nil {
		body.AnswerStatus = p.Answered.Status
		body.AnswerLocation = p.Answered.Header.Get("Location")
	}
	return json.Marshal(body)
}

// inSeconds is the value of Retry-After: whole seconds, rounded up.
func inSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// Reply renders the problem as application/problem+json. It adds WWW-Authenticate to a 401, Retry-After if a repeat
// helps, Idempotency-Problem with the code, and Idempotency-Result if the outcome is unknown (P-1).
func (p *Problem) Reply() *Reply {
	body, err := json.Marshal(p)
	if err != nil { // cannot happen: a problem has only strings and numbers
		body = []byte(`{"type":"about:blank","status":` + strconv.Itoa(p.Status) + `}`)
	}
	h := http.Header{"Content-Type": {problemType}, "Cache-Control": {"no-store"}, wire.HeaderProblem: {string(p.Code)}}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", inSeconds(p.RetryAfter))
	}
	if p.unknown {
		h.Set(wire.HeaderResult, wire.ResultUnknown)
	}
	return &Reply{Status: p.Status, Header: h, Body: append(body, '\n')}
}
