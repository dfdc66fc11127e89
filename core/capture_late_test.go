package core_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// A handler writes an answer, and then calls http.Error: net/http would keep the headers with which the answer has begun. So
// the first answer and the replay have them.
//
// CONTRACT R-1, M-3
func TestHeadersAreThoseWithWhichTheAnswerBegan(t *testing.T) {
	a := newApp(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", `"7"`)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":7}`))
		http.Error(w, "the mail was not sent", http.StatusInternalServerError)
	})
	for _, result := range []string{core.ResultCreated, core.ResultReused} {
		w := a.post("k-1", `{}`)
		require.Equal(t, http.StatusCreated, w.Code)
		require.Equal(t, result, w.Header().Get(core.HeaderResult))
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.Equal(t, `"7"`, w.Header().Get("Etag"))
		require.Equal(t, `{"id":7}the mail was not sent`+"\n", w.Body.String())
	}
	require.Equal(t, 1, a.ran())

	t.Run("without any", func(t *testing.T) {
		a := newApp(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			w.Header().Set("Etag", `"of another answer"`)
			http.Error(w, "the mail was not sent", http.StatusInternalServerError)
		})
		for _, result := range []string{core.ResultCreated, core.ResultReused} {
			w := a.post("k-1", `{}`)
			require.Equal(t, result, w.Header().Get(core.HeaderResult))
			require.Empty(t, w.Header().Values("Content-Type"))
			require.Empty(t, w.Header().Values("Etag"))
		}
	})
}

// A relay announces the length of its upstream, which breaks off. http.Error takes the announcement away, and half of an
// answer must not be recorded as the whole all the same.
//
// CONTRACT R-8
func TestHTTPErrorDoesNotHideABrokenAnswer(t *testing.T) {
	a := newApp(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("half of it"))
		http.Error(w, "the upstream broke off", http.StatusBadGateway)
	})
	requireProblem(t, a.post("k-1", `{}`), http.StatusInternalServerError, core.CodeAnswerIncomplete)
	requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
}
