package gormstore_test

import (
	"iter"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// Two rows of one key: the old table had keys by route, or in two letter cases. The record that is written has its own answer.
//
// CONTRACT R-1
func TestImportOfOneKeyTwice(t *testing.T) {
	onDatabases(t, []string{"postgres", "sqlite"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		st := newStore(t, open(t))
		m := newModule(t, st, core.Policy{Recovery: core.Park})
		p := core.Principal{Issuer: "https://issuer.example", Subject: "alice"}
		past := func(a *core.Answer) operations.Past {
			return operations.Past{Principal: p, Key: "key-1", Method: http.MethodPost, Route: "/v1/payments",
				CreatedAt: time.Now().Add(-time.Hour), Answer: a}
		}
		var rows iter.Seq2[operations.Past, error] = func(yield func(operations.Past, error) bool) {
			_ = yield(past(&core.Answer{Status: http.StatusCreated, Body: []byte("paid")}), nil) && yield(past(nil), nil)
		}
		done, err := operations.New(m).Import(t.Context(), rows)
		require.NoError(t, err)
		require.Equal(t, store.Imported{Added: 1, Left: 1}, done)
		rec := try(st.Find(t.Context(), core.Scoping{}.RecordID(p, "key-1"), store.Viewer{All: true})).ok(t)
		require.Equal(t, store.Completed, rec.State(), "of two rows, the first one")
		require.Equal(t, http.StatusCreated, rec.Answer.Status)
		require.Equal(t, "paid", string(rec.Answer.Body))
	})
}
