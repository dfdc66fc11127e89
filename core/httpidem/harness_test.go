package httpidem_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/internal/adaptertest"
	"github.com/auth19/idem/internal/adaptertest/nethttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdapter(t *testing.T)  { adaptertest.Run(t, adapter) }
func TestContract(t *testing.T) { adaptertest.Contract(t, adapter) }

// adapter is this package on its own router.
var adapter = nethttp.New(func() nethttp.Router { return router{httpidem.NewRouter()} },
	[]string{"PURGE", "LINK", "PROPFIND", "CONNECTED", "post", "Post", "get", "head", "options"}, "{rest...}", true)

type router struct{ *httpidem.Router }

func (r router) Group(prefix string, m ...httpidem.Middleware) nethttp.Router {
	return router{r.Router.Group(prefix, m...)}
}

func (r router) Handle(method, path string, h http.Handler) {
	if method != "" {
		method += " "
	}
	r.Router.Handle(method+path, h)
}

func (r router) Audit(idem *core.Module) error { return httpidem.Audit(r.Router, idem) }
