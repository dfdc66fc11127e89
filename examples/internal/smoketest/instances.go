package smoketest

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// instances starts four apps at once on one empty PostgreSQL, and sends them the same commands at the same time.
//
// CONTRACT M-6
func instances(t *testing.T, program string) {
	env := "DATABASE_URL=" + pgtest.URL(t)
	apps := make([]*app, 4)
	var starting sync.WaitGroup
	for i := range apps {
		apps[i] = &app{t: t, program: program, dir: t.TempDir(), env: []string{env}}
		starting.Go(apps[i].start)
	}
	starting.Wait()
	if t.Failed() {
		return
	}
	for round := range 10 {
		pay := post(apps[0], customer, "/v1/payments", fmt.Sprint("k", round), payment("1.00", "pm_ok"))
		answers := make([]apptest.Response, 32)
		var group sync.WaitGroup
		for i := range answers {
			a := apps[i%len(apps)]
			group.Go(func() {
				answers[i], _ = a.Try(t.Context(), pay)
			})
		}
		group.Wait()
		var body string
		for _, answer := range answers {
			if answer.Code() == "in_flight" {
				continue
			}
			require.Equal(t, http.StatusCreated, answer.Status, answer.Body)
			if body == "" {
				body = answer.Body
			}
			require.Equal(t, body, answer.Body)
		}
		require.Len(t, apps[0].ledger("payment"), round+1)
	}
}
