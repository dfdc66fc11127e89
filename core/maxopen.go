package core

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// checkOpen is a gate. It refuses a new key if its principal already has MaxOpen open records. It leaves all
// other requests to the claim.
func (m *Module) checkOpen(r *http.Request, q *request) *Problem {
	limit := q.route.MaxOpen
	open, err := m.countOpen(r.Context(), q, limit)
	known := false
	if err == nil && open >= limit {
		known, err = m.hasRecord(r.Context(), q.id)
	}
	switch {
	case err != nil:
		m.storeFailed(r.Context(), q.event(EventFailed), fmt.Errorf("open records: %w", err))
		return m.unavailable(err)
	case open < limit, known:
		return nil
	}
	return m.withRetry(NewProblem(CodeTooManyOpen, "the caller has too many commands that are running or whose outcome is "+
		"unknown; nothing was run"))
}

func (m *Module) countOpen(ctx context.Context, q *request, limit int) (int, error) {
	call := new(lazyContext).until(context.WithoutCancel(ctx), time.Now().Add(m.cfg.ClaimTimeout))
	defer call.cancel(context.Canceled)
	return m.operations.CountOpen(call, m.cfg.Scoping.PrincipalScope(q.principal), limit)
}
