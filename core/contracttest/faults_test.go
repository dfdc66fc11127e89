package contracttest_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/contracttest"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/ginidem"
)

// mutant is how the bank is made.
type mutant struct {
	open   func(*testing.T) *bank
	store  func(*faultyStore)
	config func(*core.Config)
	guards func(*bank) []gin.HandlerFunc
	around func(*bank, http.Handler) http.Handler
	header string       // "": Idempotency-Key
	claims core.Profile // what the app says that it follows
	slow   bool         // the slow commands as well
	timed  bool         // the route with timed keys only
	routes int          // how many are checked
}

func (m mutant) app(t *testing.T) contracttest.App {
	t.Helper()
	b := m.open(t)
	if m.store != nil {
		s := &faultyStore{b.store, b.store.Claim, b.store.End}
		m.store(s)
		b.store = s
	}
	b.open(t, func(cfg *core.Config) {
		cfg.Header = m.header
		if m.store != nil {
			delete(cfg.Routes, "POST /v1/transfers") // such a store judges no timed keys
		}
		if m.config != nil {
			m.config(cfg)
		}
	})
	handler := onGinBehind(b, m.guards(b)...)
	if m.around != nil {
		handler = m.around(b, handler)
	}
	app := b.app(t, handler)
	app.Header, app.Profile = m.header, m.claims
	if m.timed {
		app.Routes = app.Routes[2:]
	}
	if m.slow {
		app.Routes[0].Slow = method("slow")
	}
	return app
}

// fault makes a mutant of a sound bank.
type fault func(m *mutant)

func all(faults ...fault) fault {
	return func(m *mutant) {
		for _, f := range faults {
			f(m)
		}
	}
}

func slow(m *mutant) { m.slow = true }

func timed(m *mutant) { m.timed = true }

// both checks the multipart route as well, which takes UUIDs only.
func both(m *mutant) { m.routes = 2 }

func saidToBeTheIETFs(m *mutant) { m.claims = core.IETF }

func configured(change func(*core.Config)) fault { return func(m *mutant) { m.config = change } }

func ofTheIETF(cfg *core.Config) {
	cfg.Profile, cfg.PolicyURL = core.IETF, "https://bank.example/idempotency"
}

func policies(change func(*core.Policy)) fault {
	return configured(func(cfg *core.Config) {
		for name, policy := range cfg.Routes {
			change(&policy)
			cfg.Routes[name] = policy
		}
	})
}

func guarded(by func(*bank) []gin.HandlerFunc) fault { return func(m *mutant) { m.guards = by } }

// as treats the caller as somebody else.
func as(change func(p *core.Principal, c *gin.Context, err *error)) fault {
	return guarded(func(b *bank) []gin.HandlerFunc {
		return []gin.HandlerFunc{ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
			p, err := b.verifier.VerifyRequest(c.Request)
			change(&p, c, &err)
			return p, err
		}), ginidem.Idempotent(b.idem)}
	})
}

// around does something before and after the app, or instead of it.
func around(serve func(b *bank, next http.Handler, w http.ResponseWriter, r *http.Request)) fault {
	return func(m *mutant) {
		m.around = func(b *bank, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(b, next, w, r) })
		}
	}
}

// logging sees requests.
func logging(log func(b *bank, r *http.Request)) fault {
	return around(func(b *bank, next http.Handler, w http.ResponseWriter, r *http.Request) {
		log(b, r)
		next.ServeHTTP(w, r)
	})
}

// asking changes requests.
func asking(change func(r *http.Request)) fault {
	return logging(func(_ *bank, r *http.Request) { change(r) })
}

// typing changes content types.
func typing(change func(contentType string) string) fault {
	return asking(func(r *http.Request) {
		if contentType := r.Header.Get("Content-Type"); contentType != "" {
			r.Header.Set("Content-Type", change(contentType))
		}
	})
}

// ofKeys changes keys.
func ofKeys(change func(key string) string) fault {
	return asking(func(r *http.Request) {
		if key := r.Header.Get(wire.HeaderKey); key != "" {
			r.Header[wire.HeaderKey][0] = change(key)
		}
	})
}

// rewriting changes the bodies of requests that came whole and are not too large.
func rewriting(change func(body []byte) []byte) fault {
	return asking(func(r *http.Request) {
		if body, err := readBody(r); err == nil && len(body) <= smallBody {
			setBody(r, change(body))
		}
	})
}

// refusing answers some requests with a problem.
func refusing(code core.Code, which func(r *http.Request) bool) fault {
	return around(func(_ *bank, next http.Handler, w http.ResponseWriter, r *http.Request) {
		if which(r) {
			send(w, core.NewProblem(code, "so says a mutant"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answering changes answers. It sees the body of the request.
func answering(change func(body []byte, a *httptest.ResponseRecorder)) fault {
	return around(func(_ *bank, next http.Handler, w http.ResponseWriter, r *http.Request) {
		body, _ := readBody(r)
		a := httptest.NewRecorder()
		next.ServeHTTP(a, r)
		change(body, a)
		maps.Copy(w.Header(), a.Header())
		w.WriteHeader(a.Code)
		_, _ = w.Write(a.Body.Bytes())
	})
}

func retryAfter(code string) func([]byte, *httptest.ResponseRecorder) {
	return func(_ []byte, a *httptest.ResponseRecorder) {
		if bytes.Contains(a.Body.Bytes(), []byte(`"`+code+`"`)) {
			a.Header().Set("Retry-After", "2")
		}
	}
}

// readBody reads the body of r and leaves it to be read again, with the error at its end.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	rest := io.Reader(bytes.NewReader(body))
	if err != nil {
		rest = io.MultiReader(rest, iotest.ErrReader(err))
	}
	r.Body = io.NopCloser(rest)
	return body, err
}

func setBody(r *http.Request, body []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

func send(w http.ResponseWriter, p *core.Problem) { _ = p.Reply().WriteTo(w) }

func isMoney(r *http.Request) bool {
	return (r.Method == http.MethodPost || r.Method == http.MethodPut) &&
		(strings.HasSuffix(r.URL.Path, "/payments") || strings.HasSuffix(r.URL.Path, "/receipts"))
}

func noKey(r *http.Request) bool { return r.Header.Get(wire.HeaderKey) == "" }

func rolesInside(b *bank) []gin.HandlerFunc {
	return append(guards(b), func(c *gin.Context) {
		if p, _ := authctx.FromContext(c.Request.Context()); !p.HasAnyRole("customer") {
			core.NotApplied(c.Request.Context())
			send(c.Writer, core.NewProblem(core.CodeForbidden, "only customers may pay"))
			c.Abort()
		}
	})
}

// mapOfAnswers is what many people write at first: a map from key to answer.
func mapOfAnswers(b *bank) []gin.HandlerFunc {
	var answers sync.Map
	return []gin.HandlerFunc{ginidem.JWTGuard(b.verifier), func(c *gin.Context) {
		key := c.GetHeader(wire.HeaderKey)
		if recorded, ok := answers.Load(key); ok {
			answer := recorded.(*httptest.ResponseRecorder)
			c.Data(answer.Code, answer.Header().Get("Content-Type"), answer.Body.Bytes())
			c.Abort()
			return
		}
		recording := &recordingWriter{ResponseWriter: c.Writer, recorder: httptest.NewRecorder()}
		c.Writer = recording
		c.Next()
		recording.recorder.Code = c.Writer.Status()
		recording.recorder.Header().Set("Content-Type", c.Writer.Header().Get("Content-Type"))
		answers.Store(key, recording.recorder)
	}}
}

type recordingWriter struct {
	gin.ResponseWriter
	recorder *httptest.ResponseRecorder
}

func (w *recordingWriter) Write(p []byte) (int, error) {
	_, _ = w.recorder.Body.Write(p)
	return w.ResponseWriter.Write(p)
}

// faultyStore is a store whose methods can be exchanged.
type faultyStore struct {
	store.Operations
	claim func(context.Context, store.Claim) (store.Claimed, error)
	end   func(context.Context, store.Ticket, store.Ending) error
}

func storing(fault func(*faultyStore)) fault { return func(m *mutant) { m.store = fault } }

func (s *faultyStore) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	return s.claim(ctx, c)
}

func (s *faultyStore) End(ctx context.Context, t store.Ticket, e store.Ending) error {
	return s.end(ctx, t, e)
}
