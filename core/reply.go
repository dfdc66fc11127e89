package core

import (
	"net/http"
	"slices"
)

// The headers of an answer. All answers to a request with a valid key echo its header too.
const (
	// HeaderReplayed is "true" on a replay (M-3).
	HeaderReplayed = "Idempotent-Replayed"
	// HeaderResult is ResultCreated, ResultReused or ResultUnknown (M-3, R-2).
	HeaderResult = "Idempotency-Result"

	ResultCreated = "created" // this answer is the first, and it is recorded
	ResultReused  = "reused"  // this answer is a replay
	ResultUnknown = "unknown" // the command may have been applied; a new key would apply it again
)

// Reply is an answer to be sent, whole.
type Reply struct {
	Status int         // 200 or above
	Header http.Header // set on the answer, replacing values that are there
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

// WriteTo sends the reply. The error is that of the connection: by then the answer is recorded, and a repeat gets it.
func (r *Reply) WriteTo(w http.ResponseWriter) error {
	h := w.Header()
	for _, name := range r.removed {
		delete(h, name)
	}
	for name, values := range r.Header {
		h[name] = slices.Clip(values) // an Add of outer middleware must not write into the record
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
