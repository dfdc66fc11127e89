package gormstore_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// KeepRows in front of the first commit of a Resume attempt: a 403 keeps the rows, and is recorded. Without it, it undoes
// them, and the key is free.
//
// CONTRACT
func TestKeepRowsInResume(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		a := newStepApp(t, newStore(t, db))
		keep := false
		refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, reserve(r.Context(), nil)) // a failed try is counted
			if keep {
				core.KeepRows(r.Context())
			}
			w.WriteHeader(http.StatusForbidden)
		})
		first := serve(t, a.module, "k-1", refuse)
		require.Equal(t, http.StatusForbidden, first.Code)
		require.Equal(t, "not_applied", first.Header().Get("Idempotency-Result"))
		require.Zero(t, countEffects(t, db))

		keep = true
		for _, result := range []string{"created", "reused"} {
			w := serve(t, a.module, "k-1", refuse)
			require.Equal(t, http.StatusForbidden, w.Code)
			require.Equal(t, result, w.Header().Get("Idempotency-Result"))
			require.Equal(t, 1, countEffects(t, db))
		}
	})
}
