package core_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// CONTRACT S-5, X-1
func TestReferences(t *testing.T) {
	t.Run("a reference of an attempt that never ends is there, and operators of its realm find it", func(t *testing.T) {
		st := memstore.New()
		var kept context.Context
		a := newApp(t, core.Config{Store: st}, func(w http.ResponseWriter, r *http.Request) {
			kept = r.Context()
			for range 2 { // once, whatever a handler does
				require.NoError(t, core.Reference(r.Context(), "charge", "ch_7"))
			}
			for value, why := range map[string]string{
				"": "nothing", "\u00a07": "a space", "a\nb": "a line", "\x00": "a control character", "\xff": "no UTF-8",
				strings.Repeat("7", store.MaxReferenceValue+1): "too long",
			} {
				require.Error(t, core.Reference(r.Context(), "charge", value), why)
				require.Error(t, core.Reference(r.Context(), value, "7"), why)
			}
			require.NotContains(t, core.Reference(r.Context(), "charge", "se\ncret").Error(), "se", "an error is logged")
			w.WriteHeader(http.StatusInternalServerError)
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		id := core.Scoping{}.RecordID(alice, "k-1")
		realm := core.Scoping{}.PrincipalRealm(alice)
		found, err := st.Referred(t.Context(), realm[:], "ch_7", 10)
		require.NoError(t, err)
		require.Equal(t, []core.ID{id}, found)
		refs, err := st.References(t.Context(), []core.ID{id})
		require.NoError(t, err)
		require.Equal(t, []store.Ref{{Name: "charge", Value: "ch_7"}}, refs[id])
		require.Error(t, core.Reference(kept, "charge", "late"), "the handler has returned")
		for _, e := range a.events {
			require.NotContains(t, errors.Join(e.Err, errors.New(e.Who)).Error(), "ch_7")
		}
		require.NoError(t, core.Reference(t.Context(), "charge", "ch_7"), "outside an attempt nothing is kept")
	})
	t.Run("so is one of a Resume handler that has taken no step yet, once it has ended", func(t *testing.T) {
		store := memstore.New()
		a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, core.Reference(r.Context(), "order", "7"))
			created(w, r)
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		found, err := store.Referred(t.Context(), nil, "7", 10)
		require.NoError(t, err)
		require.Equal(t, []core.ID{core.Scoping{}.RecordID(alice, "k-1")}, found)
	})
	t.Run("a store without references says so", func(t *testing.T) {
		a := newApp(t, core.Config{Store: struct{ core.Store }{memstore.New()}}, func(w http.ResponseWriter, r *http.Request) {
			require.ErrorIs(t, core.Reference(r.Context(), "charge", "ch_7"), errors.ErrUnsupported)
			created(w, r)
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	})
}
