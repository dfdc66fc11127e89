package core

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whose request is in the framework's context, after a handler has ended: its attempt's, another client's, or one that the
// handler has made. The writer of another client's request is not asked, because its handler may be at work with it.
//
// CONTRACT X-12
func TestWhoseRequestItIs(t *testing.T) {
	own, foreign := http.Header{}, http.Header{}
	for name, test := range map[string]struct {
		ctx      context.Context
		writer   http.Header // nil: it is not asked
		given    bool
		detached bool
	}{
		"another client's":        {ctx: context.WithValue(t.Context(), http.ServerContextKey, &http.Server{}), given: true},
		"made by the handler":     {ctx: context.Background(), writer: own, detached: true},
		"of no server, elsewhere": {ctx: context.Background(), writer: foreign, given: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Attempt{capture: Capture{header: own}}
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
