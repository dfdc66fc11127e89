package core_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// The backlog of a service is its own, whoever else uses its tables.
//
// CONTRACT S-4
func TestBacklog(t *testing.T) {
	st := memstore.New()
	a := newApp(t, core.Config{Store: st, Scoping: core.Scoping{Namespace: "a"}}, status(502))
	b := newApp(t, core.Config{Store: st, Scoping: core.Scoping{Namespace: "b"}}, status(502))
	a.post("k-1", `{}`)
	require.NoError(t, b.module.AdoptScoping(t.Context()))
	a.post("k-2", `{}`)
	b.post("k-3", `{}`)
	backlog, err := a.module.Backlog(t.Context())
	require.NoError(t, err)
	require.Len(t, backlog, 1)
	require.WithinDuration(t, time.Now(), backlog[0].Oldest, time.Minute)
	backlog[0].Oldest, backlog[0].Now = time.Time{}, time.Time{}
	require.Equal(t, store.Count{Method: http.MethodPost, Route: pattern, Count: 2}, backlog[0])

	other := newApp(t, core.Config{Store: newFaultStore(st)}, nil) // it has none of the optional abilities
	_, err = other.module.Backlog(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
}
