package idemclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/internal/attemptctx"
	"github.com/auth19/idem/core/store"
)

// State is the state of an operation, as a server of this library reports it. Treat a state that is not listed here as
// StateUnknown.
type State string

// The states of an operation.
const (
	StateRunning   State = "running"   // it is still running; ask again
	StateCompleted State = "completed" // it has an answer: see Operation.Answer
	StateUnknown   State = "unknown"   // it may have been carried out, and nobody can say yet (M-4)
	StateExpired   State = "expired"   // it was carried out; the answer is no longer kept (M-5)
	StateFree      State = "free"      // it was settled as not applied: the same intent may be sent again
	// StateNotFound: the server has no operation with the key. A request may still be on its way, so this does not prove
	// that nothing was carried out: repeat the same intent, never a new one.
	StateNotFound State = "not_found"
)

// Operation is what a server knows about the operation of an intent (M-8).
type Operation struct {
	State   State
	ID      string // the operation id, for operators; "" if it was not found
	Outcome string // of one that has completed or expired: "succeeded" or "refused"
	// Answer is the recorded answer of a completed operation. A JSON body has the same meaning, but perhaps not the same
	// bytes: to get the bytes, repeat the intent.
	Answer *store.Answer
}

// Why a [Client.Lookup] has no result. Compare with [errors.Is]; the error is an [*Error].
var (
	// ErrNotPlanned: the journal has no such intent. So this caller has sent nothing for it, unless the journal was lost.
	ErrNotPlanned = errors.New("idem: the journal has no such intent, so that its key is not known")
	// ErrLookup: the server did not answer, or not in the form of a server of this library. Nothing was changed; ask again.
	ErrLookup = errors.New("idem: the server did not say what is known of the operation")
)

// Lookup asks the server about the operation of an intent, for a caller that has lost the answer (M-8). It sends one GET
// with the intent's key in the header to url, the address of the server's handler operations.Own. Nothing is carried out,
// and the journal does not change. In a guarded handler, intent is the name of one of the handler's calls.
//
// Errors are of type [*Error]: [intents.ErrNoIntent]; [ErrNotPlanned]; [ErrLookup] with the Status and Code of the answer,
// 401 or 503 for instance; [ErrRedirected]; the journal's.
func (c *Client) Lookup(ctx context.Context, intent, url string) (*Operation, error) {
	key, err := c.knownKey(ctx, intent)
	if err != nil {
		return nil, err
	}
	o, err := c.LookupKey(ctx, key, url)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Intent = intent
	}
	return o, err
}

// knownKey returns the key of an intent, if it has one. It does not make one.
func (c *Client) knownKey(ctx context.Context, intent string) (string, error) {
	if err := intents.Check(intent); err != nil {
		return "", &Error{Intent: intent, Reason: err}
	}
	if attemptctx.CallsFrom(ctx) != nil {
		return c.Key(ctx, intent)
	}
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	entry, _, err := c.cfg.Journal.Find(ctx, intent)
	switch {
	case err != nil:
		return "", noAnswer(intent, err)
	case entry.Key == "":
		return "", &Error{Intent: intent, Reason: ErrNotPlanned}
	}
	return entry.Key, nil
}

// LookupKey is [Client.Lookup] with the key itself, for a reconciler that has a [store.DerivedKey].
func (c *Client) LookupKey(ctx context.Context, key, url string) (*Operation, error) {
	a, err := c.ask(ctx, key, url)
	if err != nil {
		return nil, &Error{Reason: ErrLookup, Cause: err, Attempts: 1, Uncertain: true}
	}
	e := &Error{Reason: ErrLookup, Attempts: 1, Uncertain: true, Status: a.response.StatusCode, Code: a.code,
		RetryAfter: a.retryAfter, Response: a.response}
	switch {
	case a.followed:
		e.Reason = ErrRedirected
		return nil, e
	case a.response.StatusCode == http.StatusNotFound && a.code == core.CodeNotFound:
		return &Operation{State: StateNotFound}, nil
	case a.response.StatusCode != http.StatusOK || a.tooLarge:
		return nil, e
	}
	o, err := readOperation(a.body)
	if err != nil {
		e.Cause = err
		return nil, e
	}
	return o, nil
}

// ask sends the question once.
func (c *Client) ask(ctx context.Context, key, url string) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.AttemptTimeout, errSlow)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if c.header == "" {
		return nil, errors.New("idem: this provider has no header for keys, and so no operations to ask for")
	}
	r.Header[c.header] = []string{key}
	if c.cfg.Authorize != nil {
		if err := c.cfg.Authorize(r); err != nil {
			return nil, fmt.Errorf("idem: Authorize: %w", err)
		}
	}
	res, err := c.cfg.Transport.RoundTrip(r)
	if err != nil {
		return nil, ended(ctx, err)
	}
	return c.cfg.readAnswer(res)
}

// readOperation reads the JSON form of an operation.
func readOperation(body []byte) (*Operation, error) {
	var view struct {
		ID      string `json:"id"`
		State   State  `json:"state"`
		Outcome string `json:"outcome"`
		Answer  *struct {
			Status  int             `json:"status"`
			Header  http.Header     `json:"headers"`
			Body    json.RawMessage `json:"body"`
			Bytes   []byte          `json:"body_base64"`
			Partial bool            `json:"partial"`
		} `json:"answer"`
	}
	if err := json.Unmarshal(body, &view); err != nil {
		return nil, fmt.Errorf("idem: the answer is no operation: %w", err)
	}
	if _, err := store.ParseID(view.ID); err != nil || view.State == "" || view.State == StateCompleted && view.Answer == nil {
		return nil, errors.New("idem: the answer is no operation: it has no id, no state, or no answer")
	}
	o := &Operation{State: view.State, ID: view.ID, Outcome: view.Outcome}
	if v := view.Answer; v != nil {
		o.Answer = &store.Answer{Status: v.Status, Header: v.Header, Body: v.Bytes, Partial: v.Partial}
		if v.Bytes == nil {
			o.Answer.Body = bodyOf(v.Header, v.Body)
		}
	}
	return o, nil
}

// bodyOf returns the body of an answer from its JSON form, in which text is a string, and JSON is unchanged.
func bodyOf(header http.Header, body json.RawMessage) []byte {
	var text string
	if !isJSON(header) && bytes.HasPrefix(body, []byte(`"`)) && json.Unmarshal(body, &text) == nil {
		return []byte(text)
	}
	return body
}

func isJSON(header http.Header) bool {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return media == "application/json" || strings.HasSuffix(media, "+json")
}
