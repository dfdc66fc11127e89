package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// briefStore stops its search by a value that is everywhere before it has found anything.
type briefStore struct{ *memstore.Store }

var stopped = store.Cursor{CreatedAt: time.Unix(1, 0), ID: store.ID{7}}

func (s briefStore) Referred(ctx context.Context, q store.Query) (store.ReferredPage, error) {
	if q.Refs[0].Value == "seller-1" {
		return store.ReferredPage{Next: stopped}, nil
	}
	return s.Store.Referred(ctx, q)
}

// Of two references the search goes by the one that leads further, and the pages stay with it.
//
// CONTRACT S-5
func TestSearchGoesByTheRarerReference(t *testing.T) {
	a := newApp(t, core.Config{Store: briefStore{memstore.New()}, Policy: core.Policy{Recovery: core.Park},
		OperatorRoles: []core.IssuerRole{{Issuer: alice.Issuer, Role: "operator"}}}, func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, core.Reference(r.Context(), "seller", "seller-1"))
		require.NoError(t, core.Reference(r.Context(), "amount", "77.10"))
		created(w, r)
	})
	require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	olga := core.Principal{Issuer: alice.Issuer, Subject: "olga", Roles: []string{"operator"}}
	operator, problem := operations.New(a.module).Operator(httptest.NewRequest(http.MethodGet, "/", nil), olga, nil)
	require.Nil(t, problem)
	seller, amount := store.Ref{Value: "seller-1"}, store.Ref{Value: "77.10"}

	found, err := operator.Referred(t.Context(), store.Query{Refs: []store.Ref{seller, amount}, Limit: 10})
	require.NoError(t, err)
	require.Len(t, found.Records, 1)
	require.Equal(t, []store.Ref{amount, seller}, found.Refs)
	require.Zero(t, found.Next)

	// Alone, on a later page, and where the other one leads no further, it says where it has stopped.
	for _, q := range []store.Query{
		{Refs: []store.Ref{seller}}, {Refs: []store.Ref{seller, amount}, After: stopped}, {Refs: []store.Ref{seller, seller}},
	} {
		q.Limit = 10
		found, err := operator.Referred(t.Context(), q)
		require.NoError(t, err)
		require.Empty(t, found.Records)
		require.Equal(t, q.Refs, found.Refs)
		require.Equal(t, stopped, found.Next)
	}
	require.Equal(t, []string{"amount", "seller"}, operator.ReferenceNames())
}
