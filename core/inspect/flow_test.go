package inspect_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// Is it getting worse? The overview says what came and what was settled, by the hour, of what the operator may look at.
//
// CONTRACT S-5, X-7
func TestWhatCameAndWhatWasSettled(t *testing.T) {
	d := newDesk(t)
	require.NotContains(t, d.get("/idem/").text, "Is it getting worse?")
	var ids []core.ID
	for i := range 5 {
		ids = append(ids, d.unknown(fmt.Sprint("k-", i), customer))
	}
	d.advance(time.Hour)
	ids = append(ids, d.unknown("k-5", customer))
	for _, id := range ids[4:] {
		require.Equal(t, http.StatusSeeOther, d.settle(id, d.form(id, "not_applied", "it was refused")).Code)
	}
	p := d.get("/idem/")
	require.Contains(t, p.text, "In the last hour 1 came and 2 were settled; in the last 24 hours 6 and 2.")
	require.Contains(t, p.html, `at most 5 in one of them`)
	require.Equal(t, 3, strings.Count(p.html, "<rect class=\"attempts\"")+strings.Count(p.html, "<rect class=\"warnings\""))
	d.caller = other
	require.NotContains(t, d.get("/idem/").text, "Is it getting worse?")

	d.caller = olga
	d.shaky.busy.Store(true)
	p = d.get("/idem/")
	require.Equal(t, http.StatusOK, p.Code, "the overview is of use without it")
	require.NotContains(t, p.text, "Is it getting worse?")
	require.NotEmpty(t, d.kinds(core.EventFailed))
}

func (s *shakyStore) Flow(ctx context.Context, within []byte, hours int) ([]store.Hour, error) {
	if s.busy.Load() {
		return nil, context.DeadlineExceeded
	}
	return s.Store.Flow(ctx, within, hours)
}
