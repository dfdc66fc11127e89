package smoketest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// stoppedUnderLoad stops the app (SIGTERM) while 100 requests are in flight. Whatever was carried out has been
// answered; after a restart the repeats get the same answers, the others run, and the ledger is exact.
//
// CONTRACT
func stoppedUnderLoad(t *testing.T, program string) {
	a := &app{t: t, program: program, dir: t.TempDir(), env: []string{"DATABASE_URL=" + pgtest.URL(t)}}
	a.start()
	commands := make([]apptest.Request, 100)
	for i := range commands {
		key := fmt.Sprint("k", i)
		if i%20 == 0 { // a transaction for two seconds: as many as leave connections to the others
			commands[i] = post(a, customer, "/v1/payments", key, payment("1.00", "pm_slow"))
		} else {
			commands[i] = post(a, seller, "/v1/payouts", key, payout("2.00", "pm_slow"))
		}
	}
	first := make([]answer, len(commands))
	process, ctx := a.Process, t.Context()
	var sending sync.WaitGroup
	for i, command := range commands {
		sending.Go(func() {
			for {
				first[i].Response, first[i].err = process.Try(ctx, command)
				if first[i].err != nil || first[i].Code() != "store_unavailable" {
					return
				}
				time.Sleep(50 * time.Millisecond) // nothing was run: the machine has too much to do
			}
		})
	}
	ledger := apptest.Request{Method: "GET", Path: "/v1/ledger", Token: a.Tokens[operator]}
	a.Until(t, &ledger, func(r apptest.Response) bool {
		return strings.Count(r.Body, `"kind":"provider"`) > len(commands)/2 // charges of payouts that take two more seconds
	})
	require.Equal(t, 0, a.Stop(t), a.Log())
	sending.Wait()

	a.start()
	created := func(r answer) bool { return r.err == nil && r.Status == http.StatusCreated }
	answered := len(slices.DeleteFunc(slices.Clone(first), func(r answer) bool { return !created(r) }))
	require.Greater(t, answered, len(commands)/2)
	require.Equal(t, answered, len(a.ledger("payment"))+len(a.ledger("payout")), "what is booked has been answered")
	require.Empty(t, a.operations(), "nothing is unknown")
	for i, command := range commands {
		if created(first[i]) {
			a.checkReplay(first[i].Response, a.Do(t, command))
			continue
		}
		again := a.Until(t, &command, func(r apptest.Response) bool { return r.Code() != "in_flight" })
		require.Equal(t, http.StatusCreated, again.Status, again.Body)
	}
	require.Len(t, a.ledger("payment"), 5)
	require.Len(t, a.ledger("payout"), 95)
	require.Len(t, a.ledger("provider"), 95)
	a.checkLog()
}
