package core_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// CONTRACT P-1, S-1, M-4, C-2
func TestRendering(t *testing.T) {
	t.Run("apps render problems in their own way", func(t *testing.T) {
		a := newApp(t, core.Config{RenderProblem: func(r *http.Request, p *core.Problem) *core.Reply {
			if p.Code == core.CodeKeyMissing {
				return nil // the library's own way
			}
			require.Equal(t, pattern, r.URL.Path)
			return &core.Reply{Status: p.Status, Header: http.Header{"X-Code": {string(p.Code)}}, Body: []byte("own")}
		}}, created)
		requireProblem(t, a.post("", `{}`), http.StatusBadRequest, core.CodeKeyMissing)
		a.post("k-1", `{}`)
		w := a.post("k-1", `{"other":1}`)
		require.Equal(t, http.StatusConflict, w.Code)
		require.Equal(t, "own", w.Body.String())
		require.Equal(t, "key_reused", w.Header().Get("X-Code"))
		require.Equal(t, "k-1", w.Header().Get("Idempotency-Key"))
		require.Equal(t, "key_reused", w.Header().Get("Idempotency-Problem"), "clients decide by it, however the app renders")
		require.Empty(t, w.Header().Get("Content-Type"))
	})
	// An app that always hands out the same reply must not see it change: with the key of one caller in the answer of the
	// next.
	t.Run("rendered replies are not changed", func(t *testing.T) {
		shared := &core.Reply{Status: http.StatusConflict, Header: http.Header{"X-Own": {"1"}}}
		a := newApp(t, core.Config{RenderProblem: func(*http.Request, *core.Problem) *core.Reply { return shared }}, created)
		var wg sync.WaitGroup
		for i := range 8 {
			key := "k-" + strconv.Itoa(i)
			a.post(key, `{}`)
			wg.Go(func() {
				for range 10 {
					w := a.post(key, `{"other":1}`)
					if got := w.Header().Get("Idempotency-Key"); got != key {
						t.Errorf("the key %q in the answer to %q", got, key)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, &core.Reply{Status: http.StatusConflict, Header: http.Header{"X-Own": {"1"}}}, shared)
		require.Empty(t, a.post("", `{}`).Header().Get("Idempotency-Key"))
	})
	t.Run("a client must learn that the outcome is unknown, in whatever way the app renders problems", func(t *testing.T) {
		a := newApp(t, core.Config{RenderProblem: func(_ *http.Request, p *core.Problem) *core.Reply {
			return &core.Reply{Status: p.Status}
		}}, status(http.StatusBadGateway))
		require.Equal(t, "unknown", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, "unknown", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Empty(t, a.post("", `{}`).Header().Get("Idempotency-Result"))
	})
	t.Run("problem base", func(t *testing.T) {
		for _, base := range []string{"https://shop.example/problems/", "https://shop.example/problems#", "urn:shop:"} {
			var rendered string
			a := newApp(t, core.Config{ProblemBase: base, RenderProblem: func(_ *http.Request, p *core.Problem) *core.Reply {
				rendered = p.Type
				return nil
			}}, created)
			w := a.post("", `{}`)
			requireProblem(t, w, http.StatusBadRequest, core.CodeKeyMissing)
			require.Contains(t, w.Body.String(), `"type":"`+base+`key_missing"`)
			require.Equal(t, base+"key_missing", rendered)
		}
		for base, want := range map[string]string{
			"/problems/": "is not an absolute URI", "problems": "is not an absolute URI", "https:///problems/": "is not an absolute URI",
			"https://shop.example/a b\x7f/": "is not an absolute URI", "https://shop.example/problems": "must end with",
			"https://shop.example/problems?code=/": "neither a user nor a query", "https://u:p@shop.example/": "neither a user nor a query",
		} {
			_, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}, ProblemBase: base})
			require.ErrorContains(t, err, "ProblemBase: ", base)
			require.ErrorContains(t, err, want, base)
		}
	})
}
