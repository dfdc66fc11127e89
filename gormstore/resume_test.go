package gormstore_test

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// serve is an adapter for one request.
func serve(t *testing.T, m *core.Module, key string, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	return serveAs(t, m, alice, key, `{"amount":"1.00"}`, h)
}

func serveAs(t *testing.T, m *core.Module, p core.Principal, key, body string, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	r, reply := m.Admit(r, "/v1/refunds", p)
	require.Nil(t, reply)
	attempt, reply := m.Begin(r, "/v1/refunds", p)
	if reply != nil {
		require.NoError(t, reply.WriteTo(w))
		return w
	}
	finished := false
	defer func() {
		if !finished { // a panic, or a failed test, which must not leave the transaction open
			attempt.Panicked(w.Header())
		}
	}()
	h.ServeHTTP(attempt.Capture(w), attempt.Request())
	finished = true
	if reply := attempt.Finish(); reply != nil {
		require.NoError(t, reply.WriteTo(w))
	}
	return w
}

// Of repeats that come at once to an operation that nobody works on, one goes on with it: none is told that another one is at
// work if there is none.
//
// CONTRACT M-6, X-15
func TestOneOfManyRepeatsTakesOver(t *testing.T) {
	const repeats = 24
	t.Parallel()
	onDatabases(t, transactionKinds, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		st := newStore(t, open(t))
		for name, c := range map[string]struct {
			recovery core.Recovery
			before   http.HandlerFunc
		}{
			"half-done": {core.Resume, func(w http.ResponseWriter, r *http.Request) {
				require.NoError(t, aCall(r.Context(), "call"))
				w.WriteHeader(http.StatusInternalServerError)
			}},
			"free, in Park": {core.Park, func(w http.ResponseWriter, r *http.Request) {
				core.NotApplied(r.Context())
				w.WriteHeader(http.StatusServiceUnavailable)
			}},
			"new, in Rollback": {core.Rollback, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
			}},
		} {
			module := try(core.New(core.Config{
				Store: st, Policy: core.Policy{Recovery: c.recovery}, ClaimTimeout: 10 * time.Second,
			})).ok(t)
			for range 5 {
				key := rand.Text()
				serve(t, module, key, c.before)
				told := make(chan struct{}, repeats)
				goesOn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if c.recovery == core.Resume {
						require.NoError(t, aCall(r.Context(), "call"))
					}
					for range repeats - 1 {
						select {
						case <-told:
						case <-r.Context().Done():
							t.Error("a second one is at work")
						}
					}
					w.WriteHeader(http.StatusCreated)
				})
				answers := map[string]int{}
				for _, w := range atOnce(repeats, func(int) *httptest.ResponseRecorder {
					w := serve(t, module, key, goesOn)
					told <- struct{}{}
					return w
				}) {
					answers[strconv.Itoa(w.Code)+w.Header().Get("Idempotency-Problem")]++
				}
				require.Equal(t, map[string]int{"201": 1, "409in_flight": repeats - 1}, answers, name)
			}
		}
	})
}
