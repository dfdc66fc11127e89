package core

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whose request is in the framework's context, after a handler has ended: its attempt's, another client's, or one that the
// handler has made. The writer of another client's request is not asked, because its handler may be at work with it. Inner
// middleware may leave its own writer behind, but not the one from before the attempt, and not before the answer is there.
//
// CONTRACT X-12
func TestWhoseRequestItIs(t *testing.T) {
	own, foreign, outer := http.Header{}, http.Header{}, httptest.NewRecorder()
	for name, test := range map[string]struct {
		ctx      context.Context // nil: the attempt's
		status   int             // that the capture has
		writer   http.Header     // nil: it is not asked
		given    bool
		detached bool
	}{
		"another client's":        {ctx: context.WithValue(t.Context(), http.ServerContextKey, &http.Server{}), given: true},
		"made by the handler":     {ctx: context.Background(), writer: own, detached: true},
		"of no server, elsewhere": {ctx: context.Background(), writer: foreign, given: true},

		"the attempt's":                    {writer: own},
		"the attempt's, with an answer":    {status: http.StatusCreated, writer: own},
		"the attempt's, in a buffer":       {writer: foreign, given: true},
		"the attempt's, out of a buffer":   {status: http.StatusCreated, writer: foreign},
		"the attempt's, past the capture":  {writer: outer.Header(), given: true},
		"the attempt's, behind the answer": {status: http.StatusCreated, writer: outer.Header(), given: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Attempt{capture: Capture{outer: outer, header: own, status: test.status}}
			if a.inside.Context, a.inside.Core = t.Context(), a; test.ctx == nil {
				test.ctx = &a.inside
			}
			r := httptest.NewRequestWithContext(test.ctx, http.MethodPost, "/pay", http.NoBody)
			given := a.Abandoned(r, func() http.Header {
				require.NotNil(t, test.writer, "asked")
				return test.writer
			})
			require.Equal(t, test.given, given)
			require.Equal(t, test.detached, a.capture.detached)
		})
	}
}
