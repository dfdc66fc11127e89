package inspect

import (
	"bytes"
	"context"
	"net/http"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// exchange is a command that the pages run in this process, as if it had come to the API: see [core.Exchange]. Its request
// and its writer are made for it alone.
type exchange struct {
	pattern   string
	principal core.Principal
	r         *http.Request
	w         http.ResponseWriter
	outer     http.ResponseWriter // from before the attempt
	serve     func(r *http.Request) *core.Reply
}

var _ core.Exchange = (*exchange)(nil)

func (x *exchange) Pattern() string             { return x.pattern }
func (x *exchange) Unguardable() string         { return "" } // no router has chosen a handler
func (x *exchange) Principal() core.Principal   { return x.principal }
func (x *exchange) Request() *http.Request      { return x.r }
func (x *exchange) SetRequest(r *http.Request)  { x.r = r }
func (x *exchange) Writer() http.ResponseWriter { return x.w }
func (x *exchange) BodyCopies() [][]byte        { return nil }
func (x *exchange) StatusOf(error) int          { return 0 }
func (x *exchange) Recycled() any               { return nil }
func (x *exchange) Overtaken() bool             { return false }
func (x *exchange) Send(reply *core.Reply)      { _ = reply.WriteTo(x.w) }
func (x *exchange) Shut()                       {}
func (x *exchange) Answered() bool              { return false }
func (x *exchange) Answer(error)                {}
func (x *exchange) Leave(bool)                  { x.w = x.outer }
func (x *exchange) Sent(error)                  {}

func (x *exchange) Next() error { return x.serve(x.r).WriteTo(x.w) }

func (x *exchange) Enter(capture *core.Capture) any {
	x.outer, x.w = x.w, capture
	return nil
}

// answered is a writer that keeps the answer.
type answered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answered) Header() http.Header         { return a.header }
func (a *answered) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *answered) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// command sends a command through the guards of the API's route, and returns what the API would have answered. The principal
// is the one of the pages; nothing of its cookie or token is passed on.
func (v *request) command(ctx context.Context, route commandRoute, id store.ID, key string, body []byte,
	what operations.Handler,
) (*answered, error) {
	path := route.path(id)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Host, r.RemoteAddr, r.RequestURI = v.r.Host, v.r.RemoteAddr, path
	r.Header = http.Header{"Content-Type": {"application/json"}, v.ops.KeyHeader(): {key}}
	out := &answered{header: http.Header{}}
	x := &exchange{pattern: route.pattern, principal: v.principal, r: r, w: out, serve: func(r *http.Request) *core.Reply {
		return v.ops.Serve(what, r, v.principal, id.String())
	}}
	return out, v.Module.Idempotent(x)
}
