package adaptertest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// A header counts in whatever spelling the handler has put it into the map: on the wire all are the same. What this library
// alone may say, and a length that a handler is wrong about, do not pass in another spelling either.
//
// CONTRACT
func spelledHeaders(t *testing.T, a Adapter) {
	outer := a.Middleware(func(c Context, next func() error) error {
		c.Writer().Header()["link"] = []string{"</outer>"}
		return next()
	})
	client := paying(t, a, core.Config{}, func(c Context) error {
		h := c.Writer().Header()
		h["ETag"] = []string{`"1"`}
		h["location"] = []string{"/v1/payments/1"}
		h["CONTENT-LANGUAGE"] = []string{"de"}
		h["content-length"] = []string{"1"}
		h["idempotent-replayed"] = []string{"true"}
		h["x-other"] = []string{"1"}
		return c.String(http.StatusCreated, "paid")
	}, outer)
	first, again := client.Do(Call{Key: "key-1"}), client.Do(Call{Key: "key-1"})
	require.NoError(t, first.Err)
	require.Equal(t, "paid", first.Body)
	require.Equal(t, []string{"4"}, first.Header["Content-Length"])
	require.Equal(t, "1", first.Header.Get("X-Other"))
	require.Empty(t, first.Header["Idempotent-Replayed"])
	require.Equal(t, "reused", again.Result())
	require.Empty(t, again.Header["X-Other"])
	for name, want := range map[string]string{"Etag": `"1"`, "Location": "/v1/payments/1", "Content-Language": "de",
		"Link": "</outer>"} {
		require.Equal(t, []string{want}, first.Header[name], name)
		require.Equal(t, []string{want}, again.Header[name], name)
	}
}

// Status and Location are what is left of an answer that cannot be replayed, in any spelling.
//
// CONTRACT
func spelledLocation(t *testing.T, a Adapter) {
	client := paying(t, a, core.Config{Policy: core.Policy{Recovery: core.Park, MaxAnswer: 60}}, func(c Context) error {
		c.Writer().Header()["location"] = []string{"/v1/payments/1"}
		return c.String(http.StatusCreated, strings.Repeat("x", 61))
	})
	require.Equal(t, "/v1/payments/1", client.Do(Call{Key: "key-1"}).Header.Get("Location"))
	again := client.Do(Call{Key: "key-1"})
	RequireProblem(t, http.StatusConflict, "response_not_replayable", again)
	require.Contains(t, again.Body, `"answer_location":"/v1/payments/1"`)
}
