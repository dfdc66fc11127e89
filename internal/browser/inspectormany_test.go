package browser

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/memstore"
)

// Ten thousand operations need somebody, on a route with a long name: the pages stay as small as they are with a few.
func TestInspectorManyOperations(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	operator := core.Principal{Issuer: "https://issuer.example", Subject: "olga", Roles: []string{"operator"}}
	now := time.Now()
	store := memstore.New(memstore.WithClock(func() time.Time { return now }))
	module, err := core.New(core.Config{Store: store, OperatorRoles: operator.Roles, Now: func() time.Time { return now },
		Policy: core.Policy{Recovery: core.Park}, Observer: core.LogObserver(slog.New(slog.DiscardHandler)),
		ClaimTimeout: time.Minute}) // the machine may be busy
	require.NoError(t, err)
	route := "/v1/" + strings.Repeat("payouts-with-a-long-name", 8) + "/:id"
	for i := range 10_000 {
		_, err := store.Claim(t.Context(), core.Claim{
			ID: core.Scoping{}.RecordID(operator, fmt.Sprint("payout-", i)), Realm: core.Scoping{}.PrincipalRealm(operator),
			Method: http.MethodPost, Route: route, Recovery: core.Park, Lease: time.Second, Deadline: time.Second,
		})
		require.NoError(t, err)
		now = now.Add(time.Millisecond)
	}
	now = now.Add(2 * time.Hour)
	pages, err := inspect.New(inspect.Config{Module: module,
		Caller: func(*http.Request) (core.Principal, error) { return operator, nil }})
	require.NoError(t, err)
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)

	b.open(server.URL + "/idem/")
	require.Contains(t, b.text(".card.unknown"), "10\u202f000")
	fitsEverywhere(b)
	b.click(".card.unknown")
	seen := map[string]bool{}
	for range 4 {
		b.until("document.querySelector('table.list')")
		fitsEverywhere(b)
		for _, id := range eval[[]string](b, "[...document.querySelectorAll('a.id')].map((a) => a.href)") {
			require.False(t, seen[id], "no page repeats an operation")
			seen[id] = true
		}
		before := eval[string](b, "location.search")
		b.click("a[rel=next]")
		b.until(fmt.Sprintf("location.search != %q", before))
	}
	require.Len(t, seen, 200)
	b.quiet(server.URL)
}
