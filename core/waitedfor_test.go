package core_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// The contexts of a request have no timer until somebody waits for their end: handler and store may ask them for all else.
func TestNoContextHasATimerUntilSomebodyWaits(t *testing.T) {
	asks := func(ctx context.Context) error {
		require.NoError(t, ctx.Err())
		ctx.Value("a key that is not there")
		ctx.Deadline()
		return nil
	}
	waits := func(ctx context.Context) error {
		ctx.Done()
		return nil
	}
	for name, tt := range map[string]struct {
		claim, handler, completion func(ctx context.Context) error
		want                       []string
	}{
		"nobody":         {asks, asks, asks, nil},
		"the claim":      {waits, asks, asks, []string{"claim"}},
		"the handler":    {asks, waits, asks, []string{"handler"}},
		"the completion": {asks, asks, waits, []string{"completion"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := newFaultStore(memstore.New()).on("claim", tt.claim)
			store.on("complete", tt.completion)
			var ctx context.Context
			a := newApp(t, core.Config{Store: store}, func(w http.ResponseWriter, r *http.Request) {
				ctx = r.Context()
				require.NoError(t, tt.handler(ctx))
				_, within := core.Operation(ctx)
				require.True(t, within)
				created(w, r)
			})
			require.Equal(t, core.ResultCreated, a.post("k-1", `{}`).Header().Get(core.HeaderResult))
			require.Equal(t, tt.want, core.WaitedFor(ctx))
		})
	}
}
