package gormstore_test

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// A full disk is no fault of the command: the client is told to come again, and the key is free. It may be full at the claim,
// at a statement of the handler, at the record or at COMMIT.
//
// CONTRACT X-0, F-1
func TestFullDiskOfSQLite(t *testing.T) {
	t.Parallel()
	address := sqliteAddress(t)
	db := openDB(t, sqlite.Open(address), 4)
	migrate(t, db)
	pages := query[int](t, db, "PRAGMA page_count")
	pool := try(db.DB()).ok(t)
	require.NoError(t, pool.Close())
	full := 0
	for _, recovery := range []core.Recovery{core.Rollback, core.Resume} {
		for _, spare := range []int{0, 1, 2, 4, 8} { // pages
			for _, size := range []int{0, 3_000, 30_000} {
				for _, status := range []int{http.StatusCreated, http.StatusNotFound} {
					limit := "&_pragma=max_page_count(" + strconv.Itoa(pages+spare) + ")"
					db := openDB(t, sqlite.Open(address+limit), 4)
					st := newStore(t, db)
					module := newModule(t, st, core.Policy{Recovery: recovery})
					var failed error
					answer := serve(t, module, rand.Text(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						insert := func(tx *gorm.DB) error { return tx.Create(&effect{Name: strings.Repeat("x", size)}).Error }
						if recovery == core.Rollback {
							failed = insert(gormstore.Tx(r.Context()))
						} else {
							failed = gormstore.StepDo(r.Context(), "write", insert)
						}
						w.WriteHeader(status) // it ignores the error
						_, _ = w.Write([]byte(strings.Repeat("y", 9_000)))
					}))
					switch {
					case answer.Code != status:
						require.Equal(t, http.StatusServiceUnavailable, answer.Code, "%s: %s", limit, answer.Body)
						require.NotEmpty(t, answer.Header().Get("Retry-After"), limit)
						require.Zero(t, countEffects(t, db))
						require.Zero(t, query[int](t, db, "SELECT count(*) FROM idempotency_record"))
						full++
					case status == http.StatusCreated:
						require.NoError(t, failed, limit)
					}
					execute(t, db, "DELETE FROM effects", "DELETE FROM idempotency_record", "DELETE FROM idempotency_step", "VACUUM")
					require.NoError(t, st.Close())
				}
			}
		}
	}
	require.Greater(t, full, 30)
}
