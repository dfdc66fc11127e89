package core

import (
	"net/http"
	"slices"
)

// The headers of an answer. All answers to a request with a valid key also echo the key's header.
const (
	// HeaderReplayed is "true" on a replay (M-3).
	HeaderReplayed = "Idempotent-Replayed"
	// HeaderResult is ResultCreated, ResultReused or ResultUnknown (M-3, R-2).
	HeaderResult = "Idempotency-Result"

	ResultCreated = "created" // this answer is the first, and it is recorded
	ResultReused  = "reused"  // this answer is a replay
	ResultUnknown = "unknown" // the command may have been applied; with a new key it could be applied again
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
	replay  bool
}

var (
	resultCreated = []string{ResultCreated}
	resultReused  = []string{ResultReused}
	resultUnknown = []string{ResultUnknown}
	replayedTrue  = []string{"true"}
)

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
