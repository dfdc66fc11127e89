package core_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// thirdParty is somebody else's store: it has the methods of gormstore's, and says itself whether it runs rows.
type thirdParty struct {
	*memstore.Store
	rows bool
}

func (s thirdParty) Rows() bool { return s.rows }

// What decides is what the store says, not which methods it has.
//
// CONTRACT X-5
func TestRollbackAsksTheStoreForRows(t *testing.T) {
	for _, st := range []core.Store{memstore.New(), newFaultStore(memstore.New()), thirdParty{memstore.New(), false}} {
		_, err := core.New(core.Config{Store: st, Policy: core.Policy{Recovery: core.Rollback}})
		require.ErrorContains(t, err, "Recovery: Rollback needs a store that runs the handler's rows", "%T", st)
		_, err = core.New(core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume}})
		require.NoError(t, err, "%T", st)
	}
	status := http.StatusInternalServerError
	a := newApp(t, core.Config{
		Store: thirdParty{memstore.New(), true}, Policy: core.Policy{Recovery: core.Rollback, Unwritten: core.UnwrittenAllowed},
	}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	require.Equal(t, status, a.post("k-1", `{}`).Code)
	status = http.StatusCreated
	require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"), "rolled back: the key is free")
	require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
}
