package idemclient_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/wire"
)

// Of a call past core.Call no later attempt knows, under whatever key, and a refusal would free the key.
//
// CONTRACT, C-5
func TestAResumeHandlerCallsInCoreCallOnly(t *testing.T) {
	refusals := map[string]func(ctx context.Context) int{
		"core.NotApplied": func(ctx context.Context) int { core.NotApplied(ctx); return http.StatusConflict },
		"403":             func(context.Context) int { return http.StatusForbidden },
	}
	for name, refuse := range refusals {
		for _, intent := range []string{"of the handler", "planned before"} {
			t.Run(name+", a call "+intent, func(t *testing.T) {
				w, client := onWire(t, says(201, created))
				planned(t)(client.Key(t.Context(), "planned before"))
				shop := newBank(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
					e := failed(t)(client.Do(r.Context(), intent, payment(t, address)))
					require.ErrorContains(t, e, "make it in a core.Call")
					require.Zero(t, e.Attempts)
					w.WriteHeader(refuse(r.Context()))
				})
				outer := newClient(t, idemclient.Config{Transport: ownTransport(t), MaxAttempts: 1})
				refused := succeeded(t)(outer.Do(t.Context(), "outer", payment(t, shop.URL+"/v1/orders")))
				require.Equal(t, wire.ResultNotApplied, refused.Header.Get(wire.HeaderResult))
				require.Empty(t, w.sent)
			})
		}
	}
	t.Run("before, between and behind durable steps", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		planned(t)(client.Key(t.Context(), "planned before"))
		var kept context.Context
		shop := newBank(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			kept = context.WithoutCancel(ctx)
			refused := func(ctx context.Context) {
				for _, intent := range []string{"of the handler", "planned before"} {
					require.ErrorContains(t, failed(t)(client.Do(ctx, intent, payment(t, address))), "make it in a core.Call")
				}
			}
			refused(ctx)
			_, err := core.Step(ctx, "1", func(ctx context.Context) (int, error) { refused(ctx); return 0, nil })
			require.NoError(t, err)
			refused(ctx)
			require.NoError(t, core.Checkpoint(ctx))
			refused(ctx)
			require.NoError(t, core.CallDo(ctx, "charge", func(ctx context.Context, _ core.DerivedKey) error {
				succeeded(t)(client.Do(ctx, "of the handler", payment(t, address)))
				succeeded(t)(client.Do(ctx, "planned before", payment(t, address)))
				return nil
			}))
			refused(ctx)
			w.WriteHeader(http.StatusCreated)
		})
		outer := newClient(t, idemclient.Config{Transport: ownTransport(t), MaxAttempts: 1})
		succeeded(t)(outer.Do(t.Context(), "outer", payment(t, shop.URL+"/v1/orders")))
		require.Len(t, w.sent, 2)
		planned(t)(client.Key(t.Context(), "later"))
		succeeded(t)(client.Do(kept, "later", payment(t, address))) // the handler's context is over, and the call not its own
	})
}
