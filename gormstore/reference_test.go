package gormstore_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// A reference of Park and Resume is there at once, whatever becomes of the attempt. One of Rollback commits with the rows, or
// not at all; so does one that is attached with the context of a database step.
//
// CONTRACT
func TestReferencesOfEachRecovery(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		st := newStore(t, db)
		realm := core.Scoping{}.PrincipalRealm(core.Principal{Issuer: "https://issuer.example", Subject: "alice"})
		kept := func(value string) bool {
			query := store.Query{Within: realm[:], Refs: []store.Ref{{Value: value}}, Limit: 10}
			return len(try(st.Referred(t.Context(), query)).ok(t).IDs) == 1
		}
		run := func(recovery core.Recovery, key string, handler http.HandlerFunc) *httptest.ResponseRecorder {
			module, err := core.New(core.Config{Store: st, Policy: core.Policy{Recovery: recovery},
				ClaimTimeout: 30 * time.Second})
			require.NoError(t, err)
			return serve(t, module, key, handler)
		}
		answer := func(ref string, status int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				require.NoError(t, core.Reference(r.Context(), "charge", ref))
				require.NoError(t, core.Reference(r.Context(), "charge", ref))
				w.WriteHeader(status)
			}
		}

		run(core.Park, "park", func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, core.Reference(r.Context(), "charge", "of park"))
			require.True(t, kept("of park"), "while the attempt runs")
			w.WriteHeader(http.StatusInternalServerError)
		})
		require.True(t, kept("of park"))

		run(core.Rollback, "failed", answer("of a failure", http.StatusInternalServerError))
		require.False(t, kept("of a failure"))
		run(core.Rollback, "refused", answer("of a refusal", http.StatusPaymentRequired))
		require.False(t, kept("of a refusal"), "its rows are undone, and so is what names them")
		run(core.Rollback, "booked", answer("of a booking", http.StatusCreated))
		require.True(t, kept("of a booking"))

		run(core.Resume, "resume-at-once", answer("of no step", http.StatusCreated))
		require.True(t, kept("of no step"))
		run(core.Resume, "resume", func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, core.CallDo(r.Context(), "charge", func(ctx context.Context, _ core.DerivedKey) error {
				return core.Reference(ctx, "charge", "of a call")
			}))
			require.True(t, kept("of a call"))
			require.Error(t, gormstore.StepDo(r.Context(), "book", func(tx *gorm.DB) error {
				return errors.Join(core.Reference(tx.Statement.Context, "booking", "of a step"), errors.New("failed"))
			}))
			w.WriteHeader(http.StatusInternalServerError)
		})
		require.True(t, kept("of a call"))
		require.False(t, kept("of a step"))
	})
}

// However many references there are, a sweep reads only those of its records.
func TestSweepFindsReferencesByTheirIndex(t *testing.T) {
	db := parallelPostgres(t)
	require.NoError(t, db.Exec(`INSERT INTO idempotency_reference
SELECT sha256(i::text::bytea), 'amount', (i % 1000)::text, substr(sha256('realm'), 1, 24), 1 FROM generate_series(1, 50000) i`).Error)
	require.NoError(t, db.Exec("VACUUM ANALYZE idempotency_reference").Error)
	for _, plan := range plansOf(t, db, "dropReferencesOf", `'["00", "01"]'`) {
		require.Contains(t, plan, "idempotency_reference_pkey", plan)
		require.NotContains(t, plan, "Seq Scan on idempotency_reference", plan)
	}
}
