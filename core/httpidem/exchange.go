package httpidem

import (
	"net/http"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// exchange shows one request of net/http to package core: see [core.Exchange].
type exchange struct {
	w    http.ResponseWriter
	r    *http.Request
	next http.Handler
}

func (x *exchange) Pattern() string             { return pattern(x.r) }
func (x *exchange) Unguardable() string         { return unguardable(x.r) }
func (x *exchange) Request() *http.Request      { return x.r }
func (x *exchange) SetRequest(r *http.Request)  { x.r = r }
func (x *exchange) Writer() http.ResponseWriter { return x.w }

// Recycled returns nil: net/http makes a request and a writer for each exchange.
func (x *exchange) Recycled() any { return nil }

func (x *exchange) Principal() core.Principal {
	p, _ := authctx.FromContext(x.r.Context())
	return p
}

// BodyCopies returns nothing: net/http shows the body itself.
func (x *exchange) BodyCopies() [][]byte { return nil }

// StatusOf returns 0: errors of net/http have no status.
func (x *exchange) StatusOf(error) int { return 0 }

func (x *exchange) Overtaken() bool { return false }

func (x *exchange) Send(reply *core.Reply) { send(x.w, x.r, reply) }

func (x *exchange) Shut() {}

func (x *exchange) Next() error {
	x.next.ServeHTTP(x.w, x.r)
	return nil // handlers write their errors themselves
}

func (x *exchange) Enter(capture *core.Capture) any {
	x.w = capture
	return nil
}

// Answered returns false: middleware in front has the writer from before the attempt, and the capture never.
func (x *exchange) Answered() bool { return false }

func (x *exchange) Answer(error) {}

func (x *exchange) Leave(bool) {}

func (x *exchange) Sent(error) {}

// send sends reply instead of running the handler.
func send(w http.ResponseWriter, r *http.Request, reply *core.Reply) {
	_ = reply.SendTo(w, r) // an error means that the connection is broken: nobody can be told
}
