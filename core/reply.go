package core

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
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

	within time.Duration // how long the client may take to read it; 0: the default
	ends   time.Time     // when the handler wants writing to end; zero if it has not said so
}

var (
	resultCreated = []string{wire.ResultCreated}
	resultReused  = []string{wire.ResultReused}
	resultUnknown = []string{wire.ResultUnknown}
	replayedTrue  = []string{"true"}

	resultNotApplied = []string{wire.ResultNotApplied}
)

// ours are the headers that only this library may send.
var ours = [...]string{wire.HeaderReplayed, wire.HeaderResult, wire.HeaderProblem}

// says reports whether the reply has this Idempotency-Result.
func (r *Reply) says(result string) bool { return len(r.result) > 0 && r.result[0] == result }

// freed is the answer of a handler whose key has become free. A 5xx stays without a result: clients repeat those (C-2).
func freed(r *Reply) *Reply {
	if r.Status < http.StatusInternalServerError {
		r.result = resultNotApplied
	}
	return r
}

// SendTo is WriteTo for the answer to request. A client that does not read the answer ends it with the route's
// Policy.Deadline, counted from now, or with the server's WriteTimeout if that is shorter. The server begins anew with
// each request. Where no writer in w has deadlines, nothing ends it.
func (r *Reply) SendTo(w http.ResponseWriter, request *http.Request) error {
	limitSending(w, request, cmp.Or(r.within, store.DefaultDeadline), r.ends)
	return r.WriteTo(w)
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
		h[wire.HeaderResult] = r.result
	}
	if r.problem != "" {
		h[wire.HeaderProblem] = []string{string(r.problem)}
	}
	if r.replay {
		h[wire.HeaderReplayed] = replayedTrue
	}
	w.WriteHeader(r.Status)
	if len(r.Body) == 0 {
		return nil
	}
	_, err := w.Write(r.Body)
	return err
}
