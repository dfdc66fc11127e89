package core

import (
	"net/http"
	"slices"
	"strings"
)

// The headers of an answer. All answers to a request with a valid key also echo the key's header.
const (
	// HeaderReplayed is "true" on a replay (M-3).
	HeaderReplayed = "Idempotent-Replayed"
	// HeaderResult is one of the four results below (M-3, R-2).
	HeaderResult = "Idempotency-Result"
	// HeaderProblem is the code of a problem. Only this library sends it: what a handler writes under this name, or under
	// the two above, is dropped. So a client can tell a problem of the guards from one that a handler passes on (C-7).
	HeaderProblem = "Idempotency-Problem"

	ResultCreated = "created" // this answer is the first, and it is recorded
	ResultReused  = "reused"  // this answer is a replay
	ResultUnknown = "unknown" // the command may have been applied; with a new key it could be applied again
	// ResultNotApplied is the result of a 4xx of a handler that has proven that nothing was applied: its key is free.
	ResultNotApplied = "not_applied"
)

// Reply is a complete answer that is to be sent.
type Reply struct {
	Status int         // 200 or above
	Header http.Header // set on the answer; they replace existing values
	Body   []byte

	removed []string // headers of outer middleware that the handler took away
	keyName string   // the echo of the key (M-3)
	key     []string
	result  []string // Idempotency-Result
	problem Code     // Idempotency-Problem
	replay  bool
}

var (
	resultCreated = []string{ResultCreated}
	resultReused  = []string{ResultReused}
	resultUnknown = []string{ResultUnknown}
	replayedTrue  = []string{"true"}

	resultNotApplied = []string{ResultNotApplied}
)

// isOurs reports whether only this library may send a header, in whatever case its name is spelled: a map of headers holds
// any spelling, and on the wire they are the same.
func isOurs(name string) bool {
	for _, ours := range [...]string{HeaderReplayed, HeaderResult, HeaderProblem} {
		if len(name) == len(ours) && strings.EqualFold(name, ours) {
			return true
		}
	}
	return false
}

// freed is the answer of a handler whose key has become free. A 5xx stays without a result: clients repeat those (C-2).
func freed(r *Reply) *Reply {
	if r.Status < http.StatusInternalServerError {
		r.result = resultNotApplied
	}
	return r
}

// WriteTo sends the reply. An error comes from the connection. An answer is recorded before it is sent, so a repeat still
// gets it.
func (r *Reply) WriteTo(w http.ResponseWriter) error {
	h := w.Header()
	for _, name := range r.removed {
		delete(h, name)
	}
	for name, values := range r.Header {
		h[name] = slices.Clip(values) // outer middleware may call Add, which must not write into the record
	}
	if r.key != nil {
		h[r.keyName] = r.key
	}
	if r.result != nil {
		h[HeaderResult] = r.result
	}
	if r.problem != "" {
		h[HeaderProblem] = []string{string(r.problem)}
	}
	if r.replay {
		h[HeaderReplayed] = replayedTrue
	}
	w.WriteHeader(r.Status)
	if len(r.Body) == 0 {
		return nil
	}
	_, err := w.Write(r.Body)
	return err
}
