package core

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/auth19/idem/core/store"
)

// checkMaxOpen returns what is wrong with the cap of a filled policy.
func (p Policy) checkMaxOpen(st Store, bad func(format string, args ...any)) {
	if p.MaxOpen < 0 {
		bad("MaxOpen: %d is negative; 0 is no cap", p.MaxOpen)
	}
	if _, ok := st.(store.Operations); p.MaxOpen > 0 && !ok {
		bad("MaxOpen: needs a store that counts open records (store.Operations), and %T does not; use gormstore", st)
	}
}

// checkOpen is a gate. It refuses a new key if its principal already has MaxOpen open records. It leaves all
// other requests to the claim.
func (m *Module) checkOpen(r *http.Request, adm *admission) *Problem {
	limit := adm.route.MaxOpen
	open, err := m.countOpen(r.Context(), adm, limit)
	known := false
	if err == nil && open >= limit {
		known, err = m.hasRecord(r.Context(), adm.id)
	}
	switch {
	case err != nil:
		m.storeFailed(r.Context(), adm.event(EventFailed), fmt.Errorf("open records: %w", err))
		return m.unavailable(err)
	case open < limit, known:
		return nil
	}
	return m.withRetry(NewProblem(CodeTooManyOpen, "the caller has too many commands that are running or whose outcome is "+
		"unknown; nothing was run"))
}

func (m *Module) countOpen(ctx context.Context, adm *admission, limit int) (int, error) {
	call := new(lazyContext).until(context.WithoutCancel(ctx), time.Now().Add(m.cfg.ClaimTimeout))
	defer call.cancel(context.Canceled)
	counter := m.cfg.Store.(store.Operations) // New has refused any other store
	return counter.CountOpen(call, m.cfg.Scoping.PrincipalScope(adm.principal), limit)
}
