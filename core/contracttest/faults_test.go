package contracttest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/ginidem"
)

// The faults of the mutants.

type middleware = func(*bank, http.Handler) http.Handler

// asking changes requests.
func asking(change func(r *http.Request)) middleware {
	return func(_ *bank, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			change(r)
			next.ServeHTTP(w, r)
		})
	}
}

// logging sees requests.
func logging(log func(b *bank, r *http.Request)) middleware {
	return func(b *bank, next http.Handler) http.Handler {
		return asking(func(r *http.Request) { log(b, r) })(b, next)
	}
}

// rewriting changes the bodies of requests that came whole and are not too large.
func rewriting(change func(body []byte) []byte) middleware {
	return asking(func(r *http.Request) {
		if body, err := readBody(r); err == nil && len(body) <= smallBody {
			setBody(r, change(body))
		}
	})
}

// refusing answers some requests with a problem.
func refusing(which func(r *http.Request) bool, refuse func(r *http.Request) *core.Problem) middleware {
	return func(_ *bank, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if which(r) {
				if problem := refuse(r); problem != nil {
					send(w, problem)
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// answering changes answers. It sees the body of the request.
func answering(change func(body []byte, a *httptest.ResponseRecorder)) middleware {
	return func(_ *bank, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := readBody(r)
			a := httptest.NewRecorder()
			next.ServeHTTP(a, r)
			change(body, a)
			maps.Copy(w.Header(), a.Header())
			w.WriteHeader(a.Code)
			_, _ = w.Write(a.Body.Bytes())
		})
	}
}

// readBody reads the body of r and leaves it to be read again, with the error at its end.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	return body, err
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

func setBody(r *http.Request, body []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

func send(w http.ResponseWriter, p *core.Problem) { _ = p.Reply().WriteTo(w) }

func isMoney(r *http.Request) bool {
	return (r.Method == http.MethodPost || r.Method == http.MethodPut) &&
		(strings.HasSuffix(r.URL.Path, "/payments") || strings.HasSuffix(r.URL.Path, "/receipts"))
}

func isRead(r *http.Request) bool {
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/v1/operations")
}

func isDelete(r *http.Request) bool { return r.Method == http.MethodDelete }

func twoKeys(r *http.Request) *core.Problem {
	if len(r.Header[core.DefaultHeader]) < 2 {
		return nil
	}
	return core.NewProblem(core.CodeKeyInvalid, "the header may be sent only once")
}

func noKey(r *http.Request) *core.Problem {
	if r.Header.Get(core.DefaultHeader) != "" {
		return nil
	}
	return core.NewProblem(core.CodeKeyMissing, "the header is required")
}

// mapOfAnswers is what many people write at first: a map from key to answer.
func mapOfAnswers(b *bank) []gin.HandlerFunc {
	var answers sync.Map
	return []gin.HandlerFunc{ginidem.JWTGuard(b.verifier), func(c *gin.Context) {
		key := c.GetHeader(core.DefaultHeader)
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

// checkThenAct looks first, and trusts what it saw.
type checkThenAct struct{ core.Store }

func newCheckThenAct(s core.Store) core.Store { return checkThenAct{s} }

func (s checkThenAct) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	_, err := s.Find(ctx, c.ID)
	time.Sleep(time.Millisecond) // as a database is away
	got, claimErr := s.Store.Claim(ctx, c)
	got.Won = got.Won || errors.Is(err, core.ErrNotFound)
	return got, claimErr
}

// oneCommand treats all commands as the same.
type oneCommand struct{ core.Store }

func newOneCommand(s core.Store) core.Store { return oneCommand{s} }

func (s oneCommand) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	got.Record.Hash = c.Hash
	return got, err
}

// keyPerRoute treats a key on two routes as two keys.
type keyPerRoute struct{ core.Store }

func newKeyPerRoute(s core.Store) core.Store { return keyPerRoute{s} }

func (s keyPerRoute) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	c.ID = sha256.Sum256(append(c.ID[:], c.Route...))
	return s.Store.Claim(ctx, c)
}

// successesOnly frees the key of a refused command.
type successesOnly struct{ core.Store }

func newSuccessesOnly(s core.Store) core.Store { return successesOnly{s} }

func (s successesOnly) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	if c.Answer.Status >= 400 {
		return s.Release(ctx, t)
	}
	return s.Store.Complete(ctx, t, c)
}

// parksNothing frees the key of a failed command.
type parksNothing struct{ core.Store }

func newParksNothing(s core.Store) core.Store { return parksNothing{s} }

func (s parksNothing) Park(ctx context.Context, t store.Ticket) error { return s.Release(ctx, t) }

// besideSQLite is a bank on SQLite that writes its ledger somewhere else.
func besideSQLite(t *testing.T) *bank {
	t.Helper()
	b, ledger := onSQLite(t), inMemory(t)
	b.book, b.booked = ledger.book, ledger.booked
	return b
}

// besideSteps is a bank in Resume that books outside of its steps.
func besideSteps(t *testing.T) *bank {
	b := inMemory(t)
	b.recovery = core.Resume
	return b
}
